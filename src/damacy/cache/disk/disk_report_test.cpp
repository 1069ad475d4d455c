#include "damacy/cache/disk/disk_report.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/cache/chunk_key.h"
#include "damacy/cache/disk/disk_record.h"
#include "damacy/cache/disk/disk_tier.h"
#include "damacy/cache/disk/record_name.h"

namespace damacy {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kSegment = 64 << 10;
constexpr std::size_t kLength = 1000;
const std::string kOne = "s3://bucket/one.zarr", kTwo = "s3://bucket/two.zarr";

ChunkKey key_of(std::uint64_t number) {
  return {{mixed(number + 1), mixed(number + 0x1234567)}};
}

Bytes bytes_of(std::uint64_t number) {
  return Bytes(kLength, static_cast<std::byte>(number * 7 + 1));
}

// 20 entries of each of two stores, in turn.
class DiskReportTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kEntries = 40;

  DiskReportTest() {
    std::string name = (fs::temp_directory_path() / "damacy-disk-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~DiskReportTest() override { fs::remove_all(directory_); }

  std::string directory() const { return directory_.string(); }
  fs::path segment(int number = 0) const {
    return directory_ / "damacy-1" / ("segment-00000" + std::to_string(number));
  }
  DiskTierSettings settings() const {
    return {directory(), false, {8 * kSegment, kSegment, 4096, 1 << 16, std::uint64_t{1} << 20}};
  }
  static bool is_of_one(std::uint64_t number) { return number % 2 == 0; }
  static void keep(DiskTier& tier, std::uint64_t number, const std::string& name) {
    tier.keep(key_of(number), bytes_of(number), name);
    ASSERT_TRUE(tier.wait_written(std::chrono::seconds(60)));
  }
  void fill() const {
    DiskTier tier(settings());
    for (std::uint64_t number = 0; number < kEntries; ++number)
      keep(tier, number, record_name(is_of_one(number) ? kOne : kTwo, "c/" + std::to_string(number)));
  }
  // Fails the test if the bytes are wrong.
  static bool is_kept(DiskTier& tier, std::uint64_t number) {
    Bytes to(kLength);
    DiskTier::Wanted wanted{key_of(number), to};
    tier.read({&wanted, 1});
    EXPECT_TRUE(!wanted.found || to == bytes_of(number)) << number;
    return wanted.found;
  }
  DiskReport look(const std::string& prefix = {}, bool verify = false) const {
    return look_at_disk_cache(directory(), prefix, verify, goes_on);
  }
  DiskCleared clear(const std::string& prefix) const { return clear_disk_cache(directory(), prefix, goes_on); }
  static bool goes_on(std::uint64_t, std::uint64_t) { return true; }

 private:
  fs::path directory_;
};

TEST_F(DiskReportTest, lists_entries_by_the_uri_of_their_store) {
  fill();
  const DiskReport all = look();
  EXPECT_EQ(all.entries, kEntries);
  EXPECT_EQ(all.unnamed, 0u);
  ASSERT_EQ(all.stores.size(), 2u);
  EXPECT_EQ(all.stores.at(kOne).entries, kEntries / 2);
  EXPECT_EQ(all.stores.at(kTwo).entry_bytes, kEntries / 2 * kLength);
  const DiskReport one = look(kOne + "/c/1");
  EXPECT_EQ(one.entries, 0u);  // it is of the other
  EXPECT_EQ(look(kTwo + "/c/1", /*verify=*/true).checked, 1u);
  EXPECT_EQ(look("s3://bucket").entries, kEntries);
}

TEST_F(DiskReportTest, finds_segments_by_their_names) {
  fill();
  fs::rename(segment(), directory() + "/damacy-1/segment-1234567");
  for (const char* other : {"segment-1", "segment-000001x", "segment-", "segments", "000001"})
    fs::copy_file(directory() + "/damacy-1/segment-1234567", directory() + "/damacy-1/" + other);
  const DiskReport found = look();
  EXPECT_EQ(found.segments, 1u);
  EXPECT_EQ(found.entries, kEntries);
  EXPECT_EQ(clear("s3://bucket").entries, kEntries);
  EXPECT_EQ(look().segments, 0u);
}

TEST_F(DiskReportTest, reports_how_many_segments_it_has_visited) {
  fill();
  using Calls = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  Calls calls;
  const auto progress = [&calls](std::uint64_t visited, std::uint64_t segments) {
    calls.emplace_back(visited, segments);
    return true;
  };
  static_cast<void>(look_at_disk_cache(directory(), {}, /*verify=*/true, progress));
  EXPECT_EQ(calls, (Calls{{0, 1}, {1, 1}}));
  EXPECT_EQ(clear_disk_cache(directory(), progress).segments, 1u);
  EXPECT_EQ(calls, (Calls{{0, 1}, {1, 1}, {0, 1}, {1, 1}}));
}

TEST_F(DiskReportTest, keeps_what_is_left_if_progress_ends_the_clearing) {
  fill();
  const auto never = [](std::uint64_t, std::uint64_t) { return false; };
  EXPECT_EQ(clear_disk_cache(directory(), never).segments, 0u);
  EXPECT_EQ(clear_disk_cache(directory(), "s3://bucket", never).entries, 0u);
  EXPECT_EQ(look().entries, kEntries);
  EXPECT_GT(look().hints, 0u);
}

TEST_F(DiskReportTest, divides_the_uses_of_a_segment_by_what_its_stores_have_there) {
  fill();
  {
    DiskTier tier(settings());
    for (int round = 0; round < 10; ++round)
      for (std::uint64_t number = 0; number < kEntries; ++number) EXPECT_TRUE(is_kept(tier, number));
  }
  const DiskReport all = look();
  EXPECT_GT(all.uses, 10u);
  EXPECT_NEAR(all.stores.at(kOne).uses, static_cast<double>(all.uses) / 2, 0.01);
  EXPECT_NEAR(all.stores.at(kTwo).uses, static_cast<double>(all.uses) / 2, 0.01);
}

TEST_F(DiskReportTest, removes_what_is_below_a_prefix_and_nothing_else) {
  fill();
  DiskTier tier(settings());  // a program that goes on
  const DiskCleared cleared = clear(kOne);
  EXPECT_EQ(cleared.entries, kEntries / 2);
  EXPECT_EQ(cleared.segments, 0u);
  for (std::uint64_t number = 0; number < kEntries; ++number) EXPECT_EQ(is_kept(tier, number), !is_of_one(number));
  const DiskReport left = look({}, /*verify=*/true);
  EXPECT_EQ(left.entries, kEntries / 2);
  EXPECT_EQ(left.damaged, 0u);
  EXPECT_FALSE(left.stores.contains(kOne));
  keep(tier, 0, record_name(kOne, "c/0"));
  EXPECT_TRUE(is_kept(tier, 0));
}

TEST_F(DiskReportTest, removed_bytes_are_not_on_the_disk) {
  fill();
  EXPECT_EQ(clear(kOne + "/c/0").entries, 1u);
  std::ifstream file(segment(), std::ios::binary);
  std::string bytes(kLength, '\0');
  file.seekg(SegmentHeader::kFirstRecord + RecordHeader::kBytes);
  ASSERT_TRUE(file.read(bytes.data(), kLength));
  EXPECT_EQ(std::ranges::count(bytes, static_cast<char>(bytes_of(0)[0])), 0);
}

TEST_F(DiskReportTest, an_index_that_is_made_again_has_no_removed_entries) {
  fill();
  clear(kOne);
  fs::remove(directory() + "/damacy-1/index");
  DiskTier tier(settings());
  keep(tier, 1000, {});  // behind the search
  for (std::uint64_t number = 0; number < kEntries; ++number) EXPECT_EQ(is_kept(tier, number), !is_of_one(number));
}

TEST_F(DiskReportTest, a_file_without_other_entries_is_removed) {
  fill();
  const DiskCleared cleared = clear("s3://bucket");
  EXPECT_EQ(cleared.segments, 1u);
  EXPECT_EQ(cleared.entries, kEntries);
  EXPECT_GE(cleared.bytes, kEntries * kLength);
  EXPECT_FALSE(fs::exists(segment()));
}

TEST_F(DiskReportTest, a_file_that_is_written_to_is_not_removed) {
  DiskTier tier(settings());
  keep(tier, 0, record_name(kOne, "c/0"));
  EXPECT_EQ(clear(kOne).entries, 1u);
  EXPECT_TRUE(fs::exists(segment()));
  keep(tier, 2, record_name(kOne, "c/2"));
  EXPECT_TRUE(is_kept(tier, 2));
  EXPECT_EQ(look(kOne).entries, 1u);
}

// As versions wrote them that kept no names: the header's bytes behind the checksum are zero.
TEST_F(DiskReportTest, entries_without_a_name_are_read_and_counted) {
  const RecordHeaderBytes header = encode(RecordHeader{key_of(1), 2, 3, 4, 0, 0});
  EXPECT_TRUE(std::all_of(header.begin() + 36, header.end() - 4, [](std::byte b) { return b == std::byte{0}; }));
  DiskTier tier(settings());
  keep(tier, 1, {});
  keep(tier, 3, record_name(kTwo, "c/3"));
  EXPECT_TRUE(is_kept(tier, 1));
  EXPECT_EQ(look().unnamed, 1u);
  EXPECT_EQ(look().entries, 2u);
  EXPECT_EQ(look("s3://bucket").entries, 1u);
  EXPECT_EQ(clear("s3://bucket").entries, 1u);
  EXPECT_TRUE(is_kept(tier, 1));
}

TEST_F(DiskReportTest, a_damaged_name_costs_the_name_only) {
  fill();
  {
    std::fstream file(segment(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(SegmentHeader::kFirstRecord + RecordHeader::kBytes + kLength + 3);
    file << "damage";
  }
  DiskTier tier(settings());
  EXPECT_TRUE(is_kept(tier, 0));
  EXPECT_EQ(look().unnamed, 1u);
  EXPECT_EQ(look(kOne).entries, kEntries / 2 - 1);
}

TEST_F(DiskReportTest, a_name_is_cut_at_its_limit) {
  DiskTier tier(settings());
  const std::string uri = "s3://bucket/" + std::string(2 * RecordHeader::kMostName, 'x');
  keep(tier, 0, record_name(uri, "c/0"));
  const DiskReport found = look();
  ASSERT_EQ(found.stores.size(), 1u);
  EXPECT_EQ(found.stores.begin()->first, uri.substr(0, RecordHeader::kMostName));
}

TEST_F(DiskReportTest, removing_while_others_write_and_read_gives_no_wrong_bytes) {
  DiskTier tier(settings());
  std::atomic<bool> ended = false;
  std::thread cleaner([&] {
    while (!ended) clear(kOne);
  });
  std::size_t hits = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::uint64_t number = i % 600;  // more than the tier has room for
    if (is_kept(tier, number))
      ++hits;
    else
      keep(tier, number, record_name(is_of_one(number) ? kOne : kTwo, "c"));
  }
  ended = true;
  cleaner.join();
  EXPECT_GT(hits, 0u);
  EXPECT_EQ(look({}, /*verify=*/true).damaged, 0u);
}

}  // namespace
}  // namespace damacy
