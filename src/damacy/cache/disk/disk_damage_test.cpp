#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/cache/disk/disk_tier.h"
#include "damacy/core/error.h"
#include "support/disk_tiers.h"
#include "support/log_records.h"

// Damaged files of a disk tier, and calls that fail.
namespace damacy {
namespace {

using testing::DiskTierTest;
using testing::key_of;
using testing::kLong;
using Tier = testing::SmallDiskTier;
namespace fs = std::filesystem;
using Random = std::mt19937_64;

// Each bit of a record's header, of the header of its segment, and of its hint.
TEST_F(DiskTierTest, each_flipped_bit_of_a_header_is_a_miss_or_the_right_bytes) {
  constexpr std::size_t kLength = 10;
  {
    Tier tier(directory());
    tier.keep(7, kLength);
  }
  const auto flip = [](const fs::path& file, std::uint64_t bit) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(bit / 8));
    const char byte = static_cast<char>(stream.get() ^ (1 << bit % 8));
    stream.seekp(static_cast<std::streamoff>(bit / 8));
    stream.put(byte);
  };
  const fs::path segment = segments().at(0);
  const std::uint64_t record = SegmentHeader::kFirstRecord * 8;
  for (std::uint64_t bit = 0; bit < (RecordHeader::kBytes + kLength) * 8; ++bit) {
    flip(segment, record + bit);
    {
      Tier tier(directory());
      EXPECT_FALSE(tier.read(7, kLength)) << bit;
      EXPECT_EQ(tier->counts().damaged, 1) << bit;
    }
    flip(segment, record + bit);
  }
  for (std::uint64_t bit = 0; bit < SegmentHeader::kBytes * 8; ++bit) {
    flip(segment, bit);
    {
      Tier tier(directory());
      tier.read(7, kLength);  // of the bytes nothing is damaged
      EXPECT_FALSE(tier->find(key_of(7), kLength)) << bit;
    }
    flip(segment, bit);
  }
  const std::uint64_t bucket = IndexHeader::kFirstBucket + key_of(7).words[0] % 4096 * IndexHeader::kBucketBytes;
  for (std::uint64_t bit = 0; bit < Hint::kBytes * 8; ++bit) {
    flip(inside() / "index", bucket * 8 + bit);
    {
      Tier tier(directory());
      EXPECT_FALSE(tier.read(7, kLength)) << bit;
    }
    flip(inside() / "index", bucket * 8 + bit);
  }
  for (std::uint64_t bit = 0; bit < IndexHeader::kBytes * 8; ++bit) {
    flip(inside() / "index", bit);
    Tier tier(directory());
    EXPECT_TRUE(tier->wait_written(kLong));
    tier.read(7, kLength);
    tier.use(8, 100);
    EXPECT_TRUE(tier.read(8, 100)) << bit;
  }
}

TEST_F(DiskTierTest, a_damaged_entry_is_replaced) {
  Tier tier(directory());
  tier.keep(1, 1000);
  {
    std::fstream stream(segments().at(0), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(SegmentHeader::kFirstRecord + RecordHeader::kBytes + 500);
    stream << "damage";
  }
  EXPECT_FALSE(tier.use(1, 1000));
  EXPECT_TRUE(tier.read(1, 1000));
}

TEST_F(DiskTierTest, files_cut_at_any_length_or_removed_are_misses) {
  damacy::testing::LogRecords records;
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    Tier tier(directory());
    for (std::uint64_t number = 0; number < 60; ++number) tier.use(number, 3000);
    std::vector<fs::path> files = segments();
    files.push_back(inside() / "index");
    files.push_back(inside() / "lock");
    for (const fs::path& file : files) {
      if (random() % 3 == 0)
        fs::remove(file);
      else if (random() % 2 == 0)
        fs::resize_file(file, random() % (fs::file_size(file) + 1));
    }
    for (std::uint64_t number = 0; number < 60; ++number) tier.read(number, 3000);
    for (std::uint64_t number = 0; number < 60; ++number) tier.use(number, 3000);
    for (const auto& [level, line] : records.all()) ASSERT_NE(level, LogLevel::warn) << line;
  }
}

TEST_F(DiskTierTest, a_lost_index_is_found_again_in_the_segments) {
  {
    Tier tier(directory());
    for (std::uint64_t number = 0; number < 100; ++number) tier.keep(number, 1000);
  }
  fs::remove(inside() / "index");
  Tier tier(directory());
  tier.keep(1000, 10);  // behind the search
  for (std::uint64_t number = 0; number < 100; ++number) EXPECT_TRUE(tier.read(number, 1000)) << number;
}

// Calls that fail from the n-th on, or once.
class FailingCalls final : public DiskCalls {
 public:
  FailingCalls(int at, int error, bool writes, bool forever)
      : at_(at), error_(error), writes_(writes), forever_(forever) {}
  ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags) override {
    if (!writes_ && fails()) return -1;
    return DiskCalls::preadv2(fd, to, count, offset, flags);
  }
  ssize_t pwritev2(int fd, const iovec* from, int count, off_t offset, int flags) override {
    if (writes_ && fails()) return -1;
    return DiskCalls::pwritev2(fd, from, count, offset, flags);
  }
  int allocate(int fd, off_t bytes) override { return writes_ && fails() ? -1 : DiskCalls::allocate(fd, bytes); }
  bool has_failed() const { return calls_ > at_; }

 private:
  bool fails() {
    const int call = calls_++;
    if (call < at_ || (call > at_ && !forever_)) return false;
    errno = error_;
    return true;
  }
  const int at_, error_;
  const bool writes_, forever_;
  std::atomic<int> calls_{0};
};

TEST_F(DiskTierTest, each_failing_call_is_a_miss_and_no_error) {
  const int last = std::getenv("DAMACY_SWEEP_EVERY") != nullptr ? 2000 : 200;
  for (const int error : {EIO, ENOSPC})
    for (const bool forever : {false, true})
      for (const bool writes : {false, true})
        for (int at = 0; at < last; at += at < 12 ? 1 : 97) {
          fs::remove_all(inside());
          const auto calls = std::make_shared<FailingCalls>(at, error, writes, forever);
          try {
            Tier tier(directory(), 16, calls);
            for (std::uint64_t number = 0; number < 40; ++number) tier.use(number, 3000);
            for (std::uint64_t number = 0; number < 40; ++number) tier.read(number, 3000);
          } catch (const Error& failed) {  // the index could not be made
            EXPECT_EQ(failed.status(), Status::io);
            EXPECT_LT(at, 3);
          }
          EXPECT_TRUE(at > 0 || calls->has_failed());
          Tier good(directory());
          for (std::uint64_t number = 0; number < 40; ++number) good.use(number, 3000);
          EXPECT_TRUE(good.read(0, 3000));
        }
}

TEST_F(DiskTierTest, a_full_disk_ends_writing_and_goes_on_reading) {
  const auto calls = std::make_shared<FailingCalls>(8, ENOSPC, /*writes=*/true, /*forever=*/true);
  Tier tier(directory(), 16, calls);
  for (std::uint64_t number = 0; number < 10; ++number) tier.keep(number, 1000);
  EXPECT_FALSE(tier->has_room_for(1000));
  EXPECT_TRUE(tier.read(0, 1000));
  EXPECT_FALSE(tier->is_off());
}

}  // namespace
}  // namespace damacy
