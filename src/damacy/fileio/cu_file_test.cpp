// The classes of file I/O for users: CuFile and its futures, and the objects of a folder, in memory of the host and of
// host devices.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/device/host_device.h"
#include "damacy/file.h"
#include "damacy/fileio/io_pool.h"
#include "fakes/temp_dir.h"
#include "support/error_of.h"

namespace damacy {
namespace {

namespace fs = std::filesystem;

class UserFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(7);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    change_io_settings([](IoSettings& s) {
      s = IoSettings{};
      s.num_threads = 2;
      s.num_threads_set = true;
      s.compat_mode = CompatMode::on;
    });
  }
  FileMemory on_device() const {
    return {memory.data(), memory.size(), std::make_shared<OnDevice>(OnDevice{device, {}})};
  }
  void expect_bytes(const std::byte* got, std::size_t offset, std::size_t size) const {
    EXPECT_TRUE(std::equal(got, got + size, bytes.begin() + static_cast<std::ptrdiff_t>(offset)));
  }

  TempDir dir;
  const std::string path = dir.path() + "/data";
  std::vector<std::byte> bytes = std::vector<std::byte>(300'000);
  std::shared_ptr<Device> device = make_host_device({.kind = HostOrder::Kind::lazy});
  HostBuffer memory{device->device_memory(), 200'000};
};

TEST_F(UserFiles, read_and_write_memory_of_host_and_device) {
  CuFile file(path, "r+");
  std::vector<std::byte> host(200'000);
  for (const std::size_t size : {100U, 60'000U, 200'000U}) {
    EXPECT_EQ(file.read(host_memory(std::span(host).first(size)), 17), size);
    expect_bytes(host.data(), 17, size);
    EXPECT_EQ(file.read(part_of(on_device(), 0, size), 19, {.task_size = 9000}), size);
    expect_bytes(memory.data(), 19, size);
  }
  std::ranges::fill(host, std::byte{3});
  EXPECT_EQ(file.write(host_memory(host), 50'000), host.size());
  EXPECT_EQ(file.write(part_of(on_device(), 0, 1000), 60'000), 1000U);
  std::vector<std::byte> now(1001);
  EXPECT_EQ(file.read(host_memory(now), 60'000, {.exact = true}), 1001U);
  expect_bytes(now.data(), 19, 1000);
  EXPECT_EQ(now.back(), std::byte{3});
}

TEST_F(UserFiles, raw_requests_are_one_part_on_the_calling_thread) {
  change_io_settings([](IoSettings& s) { s.task_size = 1000; });
  IoPool::process().pause(true);  // no worker may help
  CuFile file(path, "r+");
  EXPECT_EQ(file.raw_read(on_device(), 17), memory.size());
  expect_bytes(memory.data(), 17, memory.size());
  EXPECT_EQ(file.raw_read(part_of(on_device(), 500, 3000), 90), 3000U);
  expect_bytes(memory.data() + 500, 90, 3000);
  EXPECT_EQ(file.raw_write(part_of(on_device(), 500, 3000), 70'000), 3000U);
  EXPECT_EQ(file.counters().parts, 3U);
  IoPool::process().pause(false);
  std::vector<std::byte> now(3000);
  file.read(host_memory(now), 70'000);
  expect_bytes(now.data(), 90, 3000);
  EXPECT_EQ(file.raw_read(on_device(), bytes.size() - 5), 5U);
  EXPECT_EQ(file.raw_read(part_of(on_device(), 0, 0), 5), 0U);
  EXPECT_THROW(file.raw_read(on_device(), bytes.size() - 5, /*exact=*/true), FileError);
  EXPECT_THROW(file.raw_read(host_memory(now)), Error);
  EXPECT_THROW(file.raw_write(host_memory(now)), Error);
  EXPECT_THROW(CuFile(path).raw_write(on_device()), FileError);
}

TEST_F(UserFiles, give_futures_that_end_once_and_stay) {
  CuFile file(path);
  std::vector<std::byte> host(200'000);
  const IOFuture in_cache = file.pread(host_memory(std::span(host).first(4096)), 8);
  EXPECT_EQ(in_cache.get(), 4096U);
  expect_bytes(host.data(), 8, 4096);
  const IOFuture on_host = file.pread(host_memory(host), 0, {.task_size = 5000});
  const IOFuture into_device = file.pread(on_device(), 1, {.task_size = 5000});
  EXPECT_EQ(on_host.get(), host.size());
  EXPECT_TRUE(into_device.wait(std::chrono::minutes(1)));
  EXPECT_TRUE(into_device.done());
  EXPECT_EQ(into_device.get(), memory.size());
  EXPECT_EQ(into_device.get(), memory.size());
  EXPECT_EQ(into_device.counts(), std::vector<std::uint64_t>{memory.size()});
  EXPECT_FALSE(into_device.cancel());
  expect_bytes(host.data(), 0, host.size());
  expect_bytes(memory.data(), 1, memory.size());
  int called = 0;
  in_cache.when_done([&] { ++called; });
  EXPECT_EQ(called, 1);
  EXPECT_EQ(file.pread(on_device(), 2).wait_stream(1), memory.size());
}

TEST_F(UserFiles, that_are_cancelled_say_so) {
  CuFile file(path);
  IoPool::process().pause(true);
  const IOFuture future = file.pread(on_device(), 0, {.task_size = 5000});
  EXPECT_TRUE(future.cancel());
  IoPool::process().pause(false);
  EXPECT_TRUE(future.cancelled());
  try {
    future.get();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where().reason, "cancelled");
  }
}

TEST_F(UserFiles, gather_ranges_of_one_file_and_of_many) {
  CuFile file(path), other(path);
  std::vector<std::byte> host(10'000);
  const FileMemory all = on_device();
  const std::vector<FileRange> ranges{{host_memory(std::span(host).first(3000)), 70'000},
                                      {part_of(all, 5000, 4000), 100},
                                      {part_of(all, 100, 4000), 9000}};
  const IOFuture future = file.preadv(ranges);
  EXPECT_EQ(future.get(), 11'000U);
  EXPECT_EQ(future.counts(), (std::vector<std::uint64_t>{3000, 4000, 4000}));
  expect_bytes(host.data(), 70'000, 3000);
  expect_bytes(memory.data() + 5000, 100, 4000);
  expect_bytes(memory.data() + 100, 9000, 4000);

  const std::vector<FileRangeOf> of_two{{&file, part_of(all, 0, 50), 1}, {&other, part_of(all, 50, 50), 2}};
  EXPECT_EQ(preadv_many(of_two).get(), 100U);
  expect_bytes(memory.data(), 1, 50);
  expect_bytes(memory.data() + 50, 2, 50);

  const std::vector<std::uint64_t> sizes{10, 20}, offsets{1000, 500}, places{200, 100};
  EXPECT_EQ(file.preadv_packed(all, sizes, offsets).get(), 30U);
  expect_bytes(memory.data() + 10, 500, 20);
  EXPECT_EQ(file.preadv_packed(all, sizes, offsets, places).get(), 30U);
  expect_bytes(memory.data() + 200, 1000, 10);
  EXPECT_THROW(file.preadv_packed(all, sizes, std::span(offsets).first(1)), Error);
  EXPECT_THROW(file.preadv_packed(part_of(all, 0, 29), sizes, offsets), Error);
}

TEST_F(UserFiles, read_and_write_in_the_order_of_a_stream) {
  CuFile file(path, "r+");
  const IOFuture read = file.read_async(on_device(), 0, 40);
  EXPECT_EQ(read.get(), memory.size());
  expect_bytes(memory.data(), 40, memory.size());
  EXPECT_EQ(file.write_async(part_of(on_device(), 0, 1000), 0, 100'000).get(), 1000U);
  EXPECT_THROW(file.read_async(host_memory(std::span(bytes)), 0), Error);
}

TEST_F(UserFiles, refuse_what_cannot_be) {
  CuFile file(path);
  std::vector<std::byte> host(100);
  const auto kind_of = [](const auto& call) {
    try {
      call();
    } catch (const FileError& error) {
      return std::optional(error.file_kind);
    }
    return std::optional<FileErrorKind>();
  };
  EXPECT_EQ(kind_of([&] { file.write(host_memory(host)); }), FileErrorKind::mode);
  EXPECT_EQ(kind_of([&] { file.read(host_memory(host), 299'950, {.exact = true}); }), FileErrorKind::short_read);
  EXPECT_EQ(file.read(host_memory(host), 299'950), 50U);
  EXPECT_EQ(kind_of([] { CuFile("/no/such/file"); }), FileErrorKind::open);
  EXPECT_THROW(CuFile(path, "q"), Error);
  EXPECT_THROW(part_of(host_memory(host), 50, 51), Error);
  EXPECT_THROW(device_memory(host.data(), host.size()), Error);
  file.close();
  EXPECT_TRUE(file.closed());
  EXPECT_EQ(kind_of([&] { file.pread(host_memory(host)); }), FileErrorKind::closed);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CuFile adopted = CuFile::of_descriptor(fd);
  ::close(fd);
  EXPECT_EQ(adopted.read(host_memory(host), 5), 100U);
  CuFile moved = std::move(adopted);
  expect_bytes(host.data(), 5, 100);
}

TEST_F(UserFiles, have_settings_of_the_process_for_a_while) {
  {
    const IoSettingsScope scope([](IoSettings& settings) {
      settings.use_threads(7);
      settings.task_size = 5;
    });
    EXPECT_EQ(io_settings().num_threads, 7U);
    EXPECT_TRUE(io_settings().num_threads_set);
  }
  EXPECT_EQ(io_settings().num_threads, 2U);
  EXPECT_EQ(io_settings().task_size, IoSettings{}.task_size);
}

class Objects : public UserFiles {
 protected:
  GDSStore store{dir.path() + "/store"};
};

TEST_F(Objects, are_written_whole_and_read_in_ranges) {
  EXPECT_EQ(store.size("a/c.0"), std::nullopt);
  store.write("a/c.0", host_memory(bytes));
  store.write("b", part_of(host_memory(bytes), 7, 1000));
  EXPECT_EQ(store.size("a/c.0"), bytes.size());
  EXPECT_EQ(store.keys(), (std::vector<std::string>{"a/c.0", "b"}));
  EXPECT_EQ(store.keys("a/"), (std::vector<std::string>{"a/c.0"}));
  store.read("a/c.0", on_device(), 3);
  expect_bytes(memory.data(), 3, memory.size());
  const std::vector<GDSStore::Range> ranges{{"b", part_of(on_device(), 0, 100), 900},
                                            {"a/c.0", part_of(on_device(), 100, 100), 5}};
  EXPECT_EQ(store.begin_read(ranges).get(), 200U);
  expect_bytes(memory.data(), 907, 100);
  expect_bytes(memory.data() + 100, 5, 100);
  EXPECT_THROW(store.read("b", part_of(on_device(), 0, 100), 901), FileError);
}

TEST_F(Objects, that_are_replaced_are_read_anew) {
  std::vector<std::byte> host(10);
  for (std::size_t round = 0; round < 20; ++round) {
    store.write("b", part_of(host_memory(bytes), round, 10));
    store.read("b", host_memory(host));
    expect_bytes(host.data(), round, 10);
  }
  EXPECT_TRUE(store.erase("b"));
  EXPECT_FALSE(store.erase("b"));
  EXPECT_THROW(store.read("b", host_memory(host)), Error);
}

TEST_F(Objects, leave_no_partial_file_behind) {
  store.write("b", host_memory(bytes));
  try {
    store.write("b", host_memory(bytes), /*only_new=*/true);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.system_errno(), EEXIST);
  }
  fs::create_directories(dir.path() + "/store/d/e");
  EXPECT_THROW(store.write("d", host_memory(bytes)), FileError);  // a folder is in the way
  EXPECT_THROW(store.write("b/c", host_memory(bytes)), FileError);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir.path() + "/store")) files += entry.is_regular_file();
  EXPECT_EQ(files, 1U);
}

TEST_F(Objects, are_opened_once_until_they_change) {
  store.write("b", part_of(host_memory(bytes), 0, 10));
  const auto first = store.open("b");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->size, 10U);
  EXPECT_EQ(GDSStore(dir.path() + "/store").open("b")->file, first->file);
  EXPECT_NE(GDSStore(dir.path() + "/store", {.direct_io = DirectIo::off}).open("b")->file, first->file);
  store.write("b", part_of(host_memory(bytes), 0, 11));
  const auto second = store.open("b");
  EXPECT_NE(second->file, first->file);
  EXPECT_EQ(second->size, 11U);
  EXPECT_TRUE(store.erase("b"));
  EXPECT_FALSE(store.open("b").has_value());
  std::vector<std::byte> host(11);
  EXPECT_EQ(second->file->read(host_memory(host)), 11U);  // callers keep it open
}

TEST_F(Objects, are_written_in_parts_and_seen_when_they_are_committed) {
  NewObject object = store.create("a/b");
  object.file()->write(part_of(host_memory(bytes), 0, 5));
  object.file()->write(part_of(host_memory(bytes), 5, 5), 5);
  EXPECT_TRUE(store.keys().empty());
  EXPECT_TRUE(GDSStore::is_partial(object.file()->path()));
  EXPECT_FALSE(GDSStore::is_partial("a/b"));
  object.commit();
  EXPECT_EQ(store.size("a/b"), 10U);
  EXPECT_EQ(error_of([&] { object.commit(); }).where().reason, "arguments");
  {
    const NewObject dropped = store.create("c");
  }
  EXPECT_EQ(store.keys(), (std::vector<std::string>{"a/b"}));
}

TEST_F(Objects, replace_a_folder_if_they_are_told_to) {
  store.write("a/b/c", host_memory(bytes));
  EXPECT_THROW(store.create("a/b").commit(), FileError);
  EXPECT_EQ(store.keys(), (std::vector<std::string>{"a/b/c"}));
  store.create("a/b").commit({.replaces_folder = true});
  EXPECT_EQ(store.size("a/b"), 0U);
}

TEST_F(Objects, have_keys_below_the_root) {
  for (const char* key : {"", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/"})
    EXPECT_THROW(store.size(key), Error) << key;
  EXPECT_THROW(store.size(std::string_view("a\0b", 3)), Error);
}

}  // namespace
}  // namespace damacy
