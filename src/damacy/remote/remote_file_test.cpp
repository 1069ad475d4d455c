#include "damacy/remote/remote_file.h"

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/fileio/file.h"
#include "damacy/store/memory_store.h"
#include "damacy/store/mounts.h"

namespace damacy {
namespace {

std::vector<std::byte> numbers(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

class RemoteFileTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = std::make_shared<MemoryStore>();
    store->put("a/object", bytes_);
    mount("store://remote-files/", store);
  }
  void TearDown() override { unmount("store://remote-files/"); }

  std::shared_ptr<RemoteFile> open(std::optional<std::uint64_t> bytes = std::nullopt) {
    return RemoteFile::open("store://remote-files/a/object", bytes);
  }
  static std::shared_ptr<Operation> read(RemoteFile& file, std::uint64_t offset, std::span<std::byte> to,
                                         std::uint64_t task_size = 0, bool exact = false) {
    RemoteRead wanted;
    wanted.ranges.push_back({offset, {{to.data(), to.size(), nullptr}}});
    wanted.task_size = task_size;
    wanted.exact = exact;
    auto operation = file.begin_read(std::move(wanted));
    operation->wait(std::nullopt);
    return operation;
  }

  const std::vector<std::byte> bytes_ = numbers(100'000);
};

TEST_F(RemoteFileTest, reads_in_parts_up_to_the_end) {
  const auto file = open();
  EXPECT_EQ(file->bytes(), bytes_.size());
  std::vector<std::byte> out(bytes_.size() + 10);
  const auto operation = read(*file, 1, out, 999);
  EXPECT_EQ(operation->error(), nullptr);
  ASSERT_EQ(operation->count(), bytes_.size() - 1);
  EXPECT_TRUE(std::equal(bytes_.begin() + 1, bytes_.end(), out.begin()));
  EXPECT_EQ(read(*file, bytes_.size() + 1, out)->count(), 0u);
}

TEST_F(RemoteFileTest, a_short_read_is_an_error_only_if_it_must_be_exact) {
  const auto file = open();
  std::vector<std::byte> out(10);
  const auto operation = read(*file, bytes_.size() - 4, out, 0, /*exact=*/true);
  ASSERT_NE(operation->error(), nullptr);
  EXPECT_THROW(std::rethrow_exception(operation->error()), FileError);
}

TEST_F(RemoteFileTest, a_size_that_is_not_the_objects_is_named_by_the_first_read) {
  const auto file = open(bytes_.size() + 1);
  std::vector<std::byte> out(10);
  const auto operation = read(*file, 0, out);
  ASSERT_NE(operation->error(), nullptr);
  try {
    std::rethrow_exception(operation->error());
  } catch (const Error& error) {
    EXPECT_EQ(error.where().reason, "changed");
  }
}

TEST_F(RemoteFileTest, after_its_end_no_read_begins) {
  const auto file = open();
  file->close();
  EXPECT_TRUE(file->closed());
  EXPECT_THROW(file->begin_read({}), FileError);
}

TEST_F(RemoteFileTest, what_is_absent_and_what_is_no_object_are_refused) {
  const auto status_of = [](std::string_view uri) {
    try {
      RemoteFile::open(uri);
    } catch (const Error& error) {
      return error.status();
    }
    return Status::ok;
  };
  EXPECT_EQ(status_of("store://remote-files/nothing"), Status::notfound);
  for (const char* const uri :
       {"/tmp/file", "file:///tmp/file", "store://remote-files", "s3://bucket", "nonsense://a/b"})
    EXPECT_EQ(status_of(uri), Status::inval) << uri;
}

TEST_F(RemoteFileTest, device_memory_is_filled_through_staging_blocks) {
  const std::shared_ptr<Device> device = make_host_device({.kind = HostOrder::Kind::lazy});
  HostBuffer memory(device->device_memory(), bytes_.size());
  const auto on_device = std::make_shared<OnDevice>(OnDevice{device, {}});
  RemoteRead wanted;
  wanted.ranges.push_back({0, {{memory.bytes().data(), bytes_.size(), on_device}}});
  const auto operation = open()->begin_read(std::move(wanted));
  EXPECT_TRUE(operation->wait(std::nullopt));
  EXPECT_EQ(operation->error(), nullptr);
  EXPECT_EQ(operation->count(), bytes_.size());
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.end(), memory.bytes().begin()));
}

}  // namespace
}  // namespace damacy
