// Device requests through a cuFile without a GPU: bytes, counts, refusals and failures in its words.
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include "damacy/device/host_device.h"
#include "damacy/fileio/cufile_api.h"
#include "damacy/fileio/engine_choice.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "fakes/fake_paths.h"
#include "fakes/libcufile/fake_libcufile.h"
#include "fakes/temp_dir.h"

namespace damacy {
namespace {

const int kNamed = ::setenv("DAMACY_LIBCUFILE", kFakeCufile, /*overwrite=*/1);  // before anybody looks

class CuFileEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(kNamed, 0);
    ASSERT_NE(library, nullptr) << ::dlerror();
    control<decltype(fake_cufile_reset)>("fake_cufile_reset")();
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    change_io_settings([](IoSettings& s) { s = IoSettings{}; });
  }
  template <class Function>
  Function* control(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library, name));
  }
  void fail(const char* name, std::uint64_t nth, int code, bool for_ever = false) const {
    control<decltype(fake_cufile_fail)>("fake_cufile_fail")(name, nth, code, for_ever);
  }
  std::uint64_t calls(const char* name) const {
    return control<decltype(fake_cufile_calls)>("fake_cufile_calls")(name);
  }
  std::int64_t handles() const { return control<decltype(fake_cufile_handles)>("fake_cufile_handles")(); }

  std::shared_ptr<File> open(CompatMode mode = CompatMode::off) const {
    return File::open({path, AT_FDCWD}, OpenFlags::parse("r+"), {.compat_mode = mode, .engine = {}, .direct_io = {}});
  }
  std::shared_ptr<Operation> transfer(const std::shared_ptr<File>& file, Direction direction, std::uint64_t offset,
                                      std::size_t size) {
    auto operation = begin_request(
        {file, direction, offset, {{memory.data(), size, std::make_shared<OnDevice>(OnDevice{device, {}})}}, {}});
    operation->wait(std::nullopt);
    return operation;
  }
  FileError error_of(const std::shared_ptr<Operation>& operation) const {
    try {
      if (operation->error() != nullptr) std::rethrow_exception(operation->error());
    } catch (const FileError& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return FileError::of_library("none");
  }

  void* library = ::dlopen(kFakeCufile, RTLD_NOW | RTLD_LOCAL);
  TempDir dir;
  std::string path = dir.path() + "/data";
  std::vector<std::byte> bytes = std::vector<std::byte>(200'000);
  std::shared_ptr<Device> device = make_host_device({.kind = HostOrder::Kind::lazy});
  HostBuffer memory{device->device_memory(), 200'000};
};

TEST_F(CuFileEngineTest, device_requests_go_through_it_and_are_counted) {
  const auto file = open();
  EXPECT_EQ(why_no_cufile(*file), "");
  const auto read = transfer(file, Direction::read, 100, 100'000);
  ASSERT_EQ(read->error(), nullptr);
  EXPECT_EQ(read->count(), 100'000U);
  EXPECT_TRUE(std::equal(memory.data(), memory.data() + 100'000, bytes.begin() + 100));
  EXPECT_EQ(transfer(file, Direction::write, 0, 100'000)->count(), 100'000U);
  EXPECT_EQ(file->counters().traffic[static_cast<std::size_t>(IoWay::cufile)][0].bytes, 100'000U);
  EXPECT_EQ(calls("cuFileHandleRegister"), 1U);
  EXPECT_EQ(handles(), 1);
  file->close(/*wait=*/true);
  EXPECT_EQ(handles(), 0);
}

TEST_F(CuFileEngineTest, work_on_the_memory_comes_first) {
  const auto producer = device->make_stream();
  producer->fill(memory.bytes(), std::byte{9});
  const Event made = producer->record();
  const auto operation = begin_request({open(),
                                        Direction::write,
                                        0,
                                        {{memory.data(), 100'000, std::make_shared<OnDevice>(OnDevice{device, made})}},
                                        {}});
  operation->wait(std::nullopt);
  ASSERT_EQ(operation->error(), nullptr);
  std::ifstream in(path, std::ios::binary);
  EXPECT_EQ(in.get(), 9);
}

TEST_F(CuFileEngineTest, small_requests_and_mode_on_go_round_it) {
  const auto small = open();
  EXPECT_EQ(transfer(small, Direction::read, 0, 1000)->count(), 1000U);
  const auto posix = open(CompatMode::on);
  EXPECT_EQ(transfer(posix, Direction::read, 0, 100'000)->count(), 100'000U);
  EXPECT_EQ(why_no_cufile(*posix), "compatibility mode is ON");
  EXPECT_EQ(calls("cuFileRead"), 0U);
}

TEST_F(CuFileEngineTest, short_transfers_go_on_and_the_end_of_the_file_ends_them) {
  control<decltype(fake_cufile_most_bytes)>("fake_cufile_most_bytes")(7000);
  const auto file = open();
  EXPECT_EQ(transfer(file, Direction::read, 150'000, 100'000)->count(), 50'000U);
  EXPECT_TRUE(std::equal(memory.data(), memory.data() + 50'000, bytes.begin() + 150'000));
}

TEST_F(CuFileEngineTest, failures_have_its_words) {
  const auto file = open();
  fail("cuFileRead", 1, EIO);
  EXPECT_EQ(error_of(transfer(file, Direction::read, 0, 100'000)).system_errno(), EIO);
  fail("cuFileRead", 1, 5008);
  const FileError error = error_of(transfer(file, Direction::read, 4096, 100'000));
  EXPECT_EQ(error.cufile_code, 5008);
  EXPECT_EQ(error.file_kind, FileErrorKind::cufile);
  EXPECT_EQ(error.backend, "cufile");
  EXPECT_EQ(error.offset, 4096U);
  EXPECT_NE(std::string(error.what()).find("cuFile error"), std::string::npos);
  EXPECT_NE(std::string(error.what()).find("IO_NOT_SUPPORTED"), std::string::npos);
  EXPECT_EQ(transfer(file, Direction::read, 0, 100'000)->count(), 100'000U);
}

TEST_F(CuFileEngineTest, a_file_that_it_does_not_take_is_refused) {
  fail("cuFileHandleRegister", 1, 5018);
  const auto file = open();
  EXPECT_THROW(register_with_cufile(*file), FileError);
  register_with_cufile(*file);
  EXPECT_EQ(handles(), 1);
}

TEST_F(CuFileEngineTest, its_driver_is_open_before_it_is_asked_whether_it_is_direct) {
  static std::uint64_t asked = 0;  // by all runs of this test: the answer is kept
  EXPECT_EQ(cufile::why_not_direct(), "");
  asked += calls("cuFileDriverGetProperties");
  EXPECT_EQ(asked, 1U);
}

TEST_F(CuFileEngineTest, in_auto_mode_a_file_that_cufile_refuses_is_read_without_it) {
  if (cufile::compat_preference().compat) GTEST_SKIP() << cufile::compat_preference().why;
  fail("cuFileHandleRegister", 1, 5018);
  const auto refused = open(CompatMode::automatic);
  EXPECT_EQ(transfer(refused, Direction::read, 0, 100'000)->count(), 100'000U);
  EXPECT_NE(why_no_cufile(*refused).find("cuFileHandleRegister"), std::string::npos);
  EXPECT_EQ(transfer(refused, Direction::read, 0, 100'000)->count(), 100'000U);
  EXPECT_EQ(calls("cuFileHandleRegister"), 1U);
  EXPECT_EQ(calls("cuFileRead"), 0U);
  const auto taken = open(CompatMode::automatic);
  EXPECT_EQ(transfer(taken, Direction::read, 0, 100'000)->count(), 100'000U);
  EXPECT_EQ(calls("cuFileRead"), 1U);
}

TEST_F(CuFileEngineTest, memory_is_registered_where_it_serves_and_nowhere_else) {
  const FileMemory on_device{memory.data(), 1000, std::make_shared<OnDevice>(OnDevice{device, {}})};
  change_io_settings([](IoSettings& s) { s.compat_mode = CompatMode::on; });
  register_with_cufile(on_device);
  EXPECT_EQ(calls("cuFileBufRegister"), 0U);
  change_io_settings([](IoSettings& s) { s.compat_mode = CompatMode::off; });
  register_with_cufile(on_device);
  register_with_cufile(FileMemory{memory.data(), 1000, nullptr});  // the host's
  EXPECT_EQ(calls("cuFileBufRegister"), 1U);
  deregister_from_cufile(on_device);
  EXPECT_EQ(calls("cuFileBufDeregister"), 1U);
  fail("cuFileBufRegister", 1, 5023);
  try {
    register_with_cufile(on_device);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.cufile_code, 5023);
    EXPECT_NE(std::string(error.what()).find("cuFileBufRegister"), std::string::npos);
  }
}

TEST(CuFileLibrary, says_what_it_tried) {
  const auto none = cufile::open_library({"/nowhere/libcufile.so.0", "libm.so.6"});
  EXPECT_FALSE(none.loaded);
  ASSERT_EQ(none.tried.size(), 2U);
  EXPECT_EQ(none.tried[1].outcome, "it lacks cuFileDriverOpen");
  const auto found = cufile::open_library({"/nowhere/libcufile.so.0", kFakeCufile});
  EXPECT_TRUE(found.loaded);
  EXPECT_EQ(found.version, 1150);
}

}  // namespace
}  // namespace damacy
