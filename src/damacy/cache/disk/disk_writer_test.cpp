// Entries that are forgotten while they wait, while they are written and afterwards; and a directory that is locked.
#include "damacy/cache/disk/disk_writer.h"

#include <atomic>
#include <cerrno>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/cache/disk/disk_tier.h"
#include "fakes/temp_dir.h"
#include "support/log_records.h"

namespace damacy {
namespace {

constexpr auto kLong = std::chrono::seconds(60);

DiskTierSettings settings(const TempDir& directory, std::shared_ptr<DiskCalls> calls) {
  DiskTierSettings settings;
  settings.directory = directory.path();
  settings.sizes = disk_tier_sizes(DiskTierSizes::kLeastBytes, 64 << 20);
  settings.calls = std::move(calls);
  return settings;
}

ChunkKey key_of(std::uint64_t number) {
  return {{number, ~number}};
}

bool is_there(DiskTier& tier, std::uint64_t number) {
  std::vector<std::byte> to(500);
  DiskTier::Wanted wanted{key_of(number), to};
  tier.read({&wanted, 1});
  return wanted.found;
}

// Writing of records waits until it is opened.
class Gate final : public DiskCalls {
 public:
  ssize_t pwritev2(int fd, const iovec* from, int count, off_t offset, int flags) override {
    if (count > 1) {
      is_writing = true;
      is_writing.notify_all();
      is_open.wait(false);
    }
    return DiskCalls::pwritev2(fd, from, count, offset, flags);
  }
  void open() {
    is_open = true;
    is_open.notify_all();
  }
  std::atomic<bool> is_writing{false}, is_open{false};
};

TEST(DiskWriter, an_entry_that_is_forgotten_is_a_miss_for_all_processes) {
  const TempDir directory;
  DiskTier tier(settings(directory, std::make_shared<DiskCalls>()));
  DiskTier other(settings(directory, std::make_shared<DiskCalls>()));
  for (const std::uint64_t number : {1, 2}) tier.keep(key_of(number), std::vector<std::byte>(500));
  ASSERT_TRUE(tier.wait_written(kLong));
  ASSERT_TRUE(is_there(other, 1));
  EXPECT_TRUE(tier.forget(key_of(1)));
  EXPECT_FALSE(tier.forget(key_of(1)));
  EXPECT_FALSE(is_there(tier, 1));
  EXPECT_FALSE(is_there(other, 1));
  EXPECT_TRUE(is_there(other, 2));
}

TEST(DiskWriter, an_entry_that_is_forgotten_before_it_is_written_is_not_kept) {
  const TempDir directory;
  const auto gate = std::make_shared<Gate>();
  DiskTier tier(settings(directory, gate));
  for (const std::uint64_t number : {1, 2, 3}) tier.keep(key_of(number), std::vector<std::byte>(500));
  gate->is_writing.wait(false);
  EXPECT_TRUE(tier.forget(key_of(1)));  // being written
  EXPECT_TRUE(tier.forget(key_of(2)));  // waits
  gate->open();
  ASSERT_TRUE(tier.wait_written(kLong));
  EXPECT_FALSE(is_there(tier, 1));
  EXPECT_FALSE(is_there(tier, 2));
  EXPECT_TRUE(is_there(tier, 3));
}

TEST(DiskTier, is_off_where_a_process_that_is_stopped_holds_the_lock) {
  class Locked final : public DiskCalls {
   public:
    int lock(int) override {
      errno = EWOULDBLOCK;
      return -1;
    }
    void pause(int) override { ++pauses; }
    int pauses = 0;
  };
  const TempDir directory;
  const auto calls = std::make_shared<Locked>();
  testing::LogRecords records;
  DiskTier tier(settings(directory, calls));
  EXPECT_GT(calls->pauses, 0);
  EXPECT_TRUE(tier.is_off());
  EXPECT_EQ(records.all().size(), 1u);
  EXPECT_FALSE(tier.has_room_for(100));
  EXPECT_FALSE(is_there(tier, 1));
  EXPECT_FALSE(tier.forget(key_of(1)));
}

}  // namespace
}  // namespace damacy
