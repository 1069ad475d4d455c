#include "damacy/cache/disk/disk_tier.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "damacy/cache/chunk_key.h"
#include "damacy/core/error.h"
#include "support/disk_tiers.h"

namespace damacy {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::DiskTierTest;
using testing::key_of;
using testing::kLong;
using testing::kSegment;
using Tier = testing::SmallDiskTier;
namespace fs = std::filesystem;
using Random = std::mt19937_64;

std::string reason_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.message());
  }
  return "no error";
}

TEST_F(DiskTierTest, keeps_an_entry_and_gives_it_to_a_later_tier) {
  {
    Tier tier(directory());
    EXPECT_FALSE(tier->find(key_of(1), 1000));
    tier.keep(1, 1000);
    EXPECT_TRUE(tier->find(key_of(1), 1000));
    EXPECT_TRUE(tier.read(1, 1000));
    EXPECT_FALSE(tier->find(key_of(1), 999));
    EXPECT_FALSE(tier.read(2, 1000));
    const DiskTier::Counts counts = tier->counts();
    EXPECT_EQ(counts.hits, (DiskTier::Count{1, 1000}));
    EXPECT_EQ(counts.misses, (DiskTier::Count{3, 1000 + 999 + 1000}));
    EXPECT_EQ(counts.kept, (DiskTier::Count{1, 1000}));
  }
  Tier later(directory());
  EXPECT_TRUE(later.read(1, 1000));
}

TEST_F(DiskTierTest, reads_neighbours_in_one_call_to_their_places) {
  class Counting final : public DiskCalls {
   public:
    ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags) override {
      if (count > 1) ++reads;
      return DiskCalls::preadv2(fd, to, count, offset, flags);
    }
    std::atomic<int> reads{0};
  };
  const auto calls = std::make_shared<Counting>();
  Tier tier(directory(), 16, calls);
  for (std::uint64_t number = 0; number < 20; ++number) tier.keep(number, 500 + number);
  calls->reads = 0;
  std::vector<Bytes> places;
  std::vector<DiskTier::Wanted> wanted;
  for (std::uint64_t number = 20; number-- > 0;) {
    places.emplace_back(500 + number);
    wanted.push_back({key_of(number), places.back()});
  }
  tier->read(wanted);
  for (std::uint64_t number = 0; number < 20; ++number) {
    EXPECT_TRUE(wanted[19 - number].found);
    EXPECT_EQ(places[19 - number], bytes_of(number, 500 + number));
  }
  EXPECT_EQ(calls->reads, 1);
}

TEST_F(DiskTierTest, an_entry_that_is_too_large_is_not_kept) {
  Tier tier(directory());
  constexpr std::size_t kLargest = kSegment - SegmentHeader::kFirstRecord - 128 - RecordHeader::kMostName;
  EXPECT_TRUE(tier->has_room_for(kLargest));
  EXPECT_FALSE(tier->has_room_for(kLargest + 1));
  EXPECT_FALSE(tier->has_room_for(0));
  tier.keep(1, kSegment);
  EXPECT_FALSE(tier.read(1, kSegment));
  tier.keep(2, kLargest, std::string(2 * RecordHeader::kMostName, 'x'));
  EXPECT_TRUE(tier.read(2, kLargest));
}

TEST_F(DiskTierTest, goes_on_in_a_segment_that_a_closed_tier_left) {
  for (std::uint64_t number = 0; number < 10; ++number) {
    Tier tier(directory());
    tier.keep(number, 1000);
  }
  EXPECT_EQ(segments().size(), 1u);
  Tier tier(directory());
  for (std::uint64_t number = 0; number < 10; ++number) EXPECT_TRUE(tier.read(number, 1000));
}

TEST_F(DiskTierTest, two_tiers_share_entries_and_the_bound) {
  Tier one(directory(), 4), other(directory(), 4);
  for (std::uint64_t number = 0; number < 1000; ++number) (number % 2 == 0 ? one : other).keep(number, 1000);
  EXPECT_LE(segments().size(), 4u);
  std::size_t found = 0;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    const bool here = one.read(number, 1000);
    found += here;
    EXPECT_EQ(other.read(number, 1000), here) << number;
  }
  EXPECT_GT(found, 4 * kSegment / 1100 * 9 / 10);
}

TEST_F(DiskTierTest, two_writers_never_have_the_same_segment) {
  Tier one(directory(), 8), other(directory(), 8);
  one.keep(1, 1000);
  other.keep(2, 1000);
  EXPECT_EQ(segments().size(), 2u);
}

TEST_F(DiskTierTest, refuses_a_directory_that_others_may_write_to) {
  {
    Tier tier(directory());
  }
  ::chmod(inside().c_str(), 0777);
  EXPECT_NE(reason_of([&] { Tier tier(directory()); }).find("has mode 0777"), std::string::npos);
  ::chmod(inside().c_str(), 0770);
  EXPECT_NE(reason_of([&] { Tier tier(directory()); }).find("chmod 0700"), std::string::npos);
  EXPECT_EQ(reason_of([&] { Tier tier(directory(), 16, std::make_shared<DiskCalls>(), /*shared=*/true); }), "no error");
  ::chmod(inside().c_str(), 0772);
  EXPECT_NE(
      reason_of([&] { Tier tier(directory(), 16, std::make_shared<DiskCalls>(), /*shared=*/true); }).find("chmod 0770"),
      std::string::npos);
}

TEST_F(DiskTierTest, refuses_a_link_and_a_foreign_owner) {
  fs::create_directory(directory() / "other");
  fs::create_directory_symlink(directory() / "other", inside());
  EXPECT_NE(reason_of([&] { Tier tier(directory()); }).find("is a symbolic link"), std::string::npos);
  fs::remove(inside());
  {
    Tier tier(directory());
  }
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(::chown(inside().c_str(), 12345, 54321), 0);
  EXPECT_NE(reason_of([&] { Tier tier(directory()); }).find("belongs to user 12345"), std::string::npos);
  EXPECT_NE(reason_of([&] {
              Tier tier(directory(), 16, std::make_shared<DiskCalls>(), /*shared=*/true);
            }).find("group 54321"),
            std::string::npos);
}

TEST_F(DiskTierTest, a_directory_that_is_replaced_by_a_link_is_not_followed) {
  Tier tier(directory());
  tier.keep(1, 1000);
  fs::create_directory(directory() / "other");
  fs::rename(inside(), directory() / "away");
  fs::create_directory_symlink(directory() / "other", inside());
  for (std::uint64_t number = 2; number < 300; ++number) tier.keep(number, 1000);
  EXPECT_TRUE(tier.read(1, 1000));
  EXPECT_TRUE(fs::is_empty(directory() / "other"));
}

TEST_F(DiskTierTest, a_segment_that_is_a_link_is_no_segment) {
  {
    Tier tier(directory());
  }
  const fs::path victim = directory() / "victim";
  std::ofstream(victim) << "untouched";
  fs::create_symlink(victim, inside() / "segment-000000");
  Tier tier(directory());
  for (std::uint64_t number = 0; number < 100; ++number) tier.keep(number, 1000);
  EXPECT_EQ(fs::file_size(victim), 9u);
}

TEST_F(DiskTierTest, a_smaller_bound_removes_segments_and_keeps_the_rest) {
  {
    Tier tier(directory(), 16);
    for (std::uint64_t number = 0; number < 900; ++number) tier.keep(number, 1000);
  }
  ASSERT_GT(segments().size(), 8u);
  Tier tier(directory(), 4);
  EXPECT_LE(segments().size(), 4u);
  std::size_t found = 0;
  for (std::uint64_t number = 0; number < 900; ++number) found += tier.read(number, 1000);
  EXPECT_GT(found, 150u);
}

// A tier and a plain model: what is found has the bytes that were kept, and what was kept last is found.
TEST_F(DiskTierTest, any_order_of_operations_gives_right_bytes_or_a_miss) {
  const char* const wanted = std::getenv("DAMACY_SWEEP_EVERY");
  const int operations = wanted != nullptr ? 200'000 : 20'000;
  Random random(11);
  std::map<std::uint64_t, std::size_t> model;
  auto tier = std::make_unique<Tier>(directory(), 8);
  std::size_t hits = 0;
  for (int i = 0; i < operations; ++i) {
    const std::uint64_t number = random() % 400;
    const std::size_t length = 1 + mixed(number) % 4000;
    switch (random() % 64) {
      case 0:
        tier.reset();
        tier = std::make_unique<Tier>(directory(), 8);
        break;
      case 1: {
        Tier other(directory(), 8);
        other.use(number, length);
        model[number] = length;
        break;
      }
      default:
        if (tier->use(number, length)) {
          ++hits;
          EXPECT_TRUE(model.contains(number));
        }
        model[number] = length;
    }
  }
  EXPECT_GT(hits, static_cast<std::size_t>(operations) / 3);
  EXPECT_LE(segments().size(), 8u);
}

// Rule 5 of the caches, on segments.
constexpr std::size_t kEntry = 960;
constexpr std::uint64_t kEntriesASegment = (kSegment - 4096) / 1024;

class DiskPolicy : public DiskTierTest {
 protected:
  // The share of hits of an epoch.
  static double epoch(Tier& tier, const std::vector<std::uint64_t>& numbers) {
    std::size_t hits = 0;
    for (const std::uint64_t number : numbers) hits += tier.use(number, kEntry);
    return static_cast<double>(hits) / static_cast<double>(numbers.size());
  }
};

TEST_F(DiskPolicy, a_set_of_twice_the_tier_hits_half_in_any_order_and_is_not_rewritten) {
  constexpr std::uint64_t kSegments = 16, kCapacity = kSegments * kEntriesASegment, kSet = 2 * kCapacity;
  for (const std::string order : {"random", "same", "uniform"}) {
    fs::remove_all(inside());
    Random random(5);
    Tier tier(directory(), kSegments);
    std::vector<std::uint64_t> numbers(kSet);
    std::iota(numbers.begin(), numbers.end(), 0);
    for (int round = 0; round < 7; ++round) {
      if (order == "random") std::ranges::shuffle(numbers, random);
      if (order == "uniform")
        for (auto& number : numbers) number = random() % kSet;
      tier->reset_counts();
      const double share = epoch(tier, numbers);
      if (round < 2) continue;
      EXPECT_GE(share, 0.95 * 0.5) << order << " " << round;
      EXPECT_LE(static_cast<double>(tier->counts().kept.entries), 0.05 * kCapacity) << order << " " << round;
    }
  }
}

TEST_F(DiskPolicy, overlapping_crops_hit_and_a_new_set_takes_over) {
  constexpr std::uint64_t kSegments = 16, kCapacity = kSegments * kEntriesASegment, kSet = 2 * kCapacity;
  Random random(5);
  Tier tier(directory(), kSegments);
  const auto crops = [&](std::uint64_t first) {
    std::vector<std::uint64_t> numbers;
    while (numbers.size() < kSet) {
      const std::uint64_t begin = random() % (kSet - 4);
      for (std::uint64_t i = 0; i < 4; ++i) numbers.push_back(first + begin + i);
    }
    return numbers;
  };
  double share = 0;
  for (int round = 0; round < 6; ++round) share = epoch(tier, crops(0));
  EXPECT_GE(share, 0.95 * 0.5);
  epoch(tier, crops(1'000'000));  // two capacities' worth
  share = epoch(tier, crops(1'000'000));
  EXPECT_GE(share, 0.9 * 0.5);
  share = epoch(tier, crops(1'000'000));
  EXPECT_GE(share, 0.95 * 0.5);
}

// Other processes.
class DiskProcesses : public DiskTierTest {
 protected:
  // Runs `body` in a process of its own.
  static pid_t start(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
};

TEST_F(DiskProcesses, writers_that_are_killed_leave_no_wrong_bytes_and_lose_no_space) {
  const char* const all = std::getenv("DAMACY_SWEEP_EVERY");
  const int kills = all != nullptr ? 1000 : 60;
  Random random(17);
  for (int kill = 0; kill < kills; ++kill) {
    const pid_t child = start([&] {
      Tier tier(directory(), 8);
      for (std::uint64_t number = 0;; number = (number + 1) % 3000) {
        tier->keep(key_of(number), bytes_of(number, 1 + number % 3000), std::string(number % 100, 'n'));
        if (number % 16 == 0) tier.read(number / 2, 1 + number / 2 % 3000);
      }
    });
    ASSERT_GT(child, 0);
    ::usleep(static_cast<useconds_t>(500 + random() % 20'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (kill % 5 != 0) continue;
    Tier tier(directory(), 8);
    for (std::uint64_t number = 0; number < 3000; number += 7) tier.read(number, 1 + number % 3000);
  }
  EXPECT_LE(segments().size(), 8u);
  // What dead writers left is used again.
  Tier tier(directory(), 8);
  for (int epoch = 0; epoch < 4; ++epoch)
    for (std::uint64_t number = 10'000; number < 10'300; ++number) tier.use(number, 1000);
  std::size_t found = 0;
  for (std::uint64_t number = 10'000; number < 10'300; ++number) found += tier.read(number, 1000);
  EXPECT_GT(found, 285u);
}

TEST_F(DiskProcesses, eight_processes_share_a_directory) {
  for (const int processes : {2, 8}) {
    fs::remove_all(inside());
    std::vector<pid_t> children;
    for (int process = 0; process < processes; ++process)
      children.push_back(start([&, process] {
        Random random(static_cast<std::uint64_t>(process));
        Tier tier(directory(), 16);
        for (int i = 0; i < 2000; ++i) {
          const std::uint64_t number = random() % 700;
          tier.use(number, 1 + number % 2000);
        }
      }));
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << processes;
    }
    EXPECT_LE(segments().size(), 16u);
    Tier tier(directory(), 16);
    std::size_t found = 0;
    for (std::uint64_t number = 0; number < 700; ++number) found += tier.read(number, 1 + number % 2000);
    EXPECT_GT(found, 600u);
  }
}

TEST_F(DiskTierTest, threads_read_and_keep_at_once) {
  Tier tier(directory(), 8);
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    threads.emplace_back([&tier, seed] {
      Random random(seed);
      for (int i = 0; i < 2000; ++i) {
        const std::uint64_t number = random() % 500;
        const std::size_t length = 1 + number * 7 % 3000;
        if (!tier->find(key_of(number), length) || !tier.read(number, length))
          tier->keep(key_of(number), bytes_of(number, length));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(tier->counts().hits.entries, 1000);
}

}  // namespace
}  // namespace damacy
