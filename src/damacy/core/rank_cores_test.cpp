#include "damacy/core/rank_cores.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include <gtest/gtest.h>

namespace damacy {
namespace {

using Cores = std::vector<int>;

Cores from_to(int first, int last) {
  Cores cores(static_cast<std::size_t>(last - first + 1));
  std::iota(cores.begin(), cores.end(), first);
  return cores;
}

TEST(cores_of_list, reads_what_linux_writes_and_nothing_else) {
  EXPECT_EQ(cores_of_list("0-3,8\n"), (Cores{0, 1, 2, 3, 8}));
  EXPECT_EQ(cores_of_list("5"), Cores{5});
  for (const char* text :
       {"", "\n", "a", "1-", "-1", "3-1", "1,1", "2,1", "1,", "1 ", "99999999999", "65536", "1-70000"})
    EXPECT_EQ(cores_of_list(text), Cores{}) << text;
}

TEST(share_of_cores, is_consecutive_cores_of_the_mask) {
  const Cores allowed = from_to(8, 71);
  EXPECT_EQ(share_of_cores(allowed, {}, 0, 4), from_to(8, 23));
  EXPECT_EQ(share_of_cores(allowed, {}, 3, 4), from_to(56, 71));
  EXPECT_EQ(share_of_cores(from_to(0, 6), {}, 1, 2), from_to(3, 6));
}

TEST(share_of_cores, is_nothing_without_other_ranks_or_enough_cores) {
  EXPECT_EQ(share_of_cores(from_to(0, 63), from_to(0, 31), 0, 1), Cores{});
  EXPECT_EQ(share_of_cores(from_to(0, 3), {}, 0, 5), Cores{});
  EXPECT_EQ(share_of_cores(from_to(0, 63), {}, 4, 4), Cores{});
  EXPECT_EQ(share_of_cores({}, {}, 0, 2), Cores{});
}

// Two sockets of 32 cores with two threads each: the second threads of socket 0 are 64 to 95.
TEST(share_of_cores, is_of_the_socket_of_its_gpu) {
  const Cores second = cores_of_list("32-63,96-127");
  const Cores allowed = from_to(0, 127);
  EXPECT_EQ(share_of_cores(allowed, second, 4, 8), from_to(32, 47));
  EXPECT_EQ(share_of_cores(allowed, second, 7, 8), from_to(112, 127));
  EXPECT_EQ(share_of_cores(allowed, allowed, 1, 8), from_to(16, 31));              // one socket
  EXPECT_EQ(share_of_cores(from_to(0, 7), from_to(32, 63), 1, 2), from_to(4, 7));  // none of them is allowed
}

TEST(share_of_cores, of_any_ranks_are_disjoint_and_allowed) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    Cores allowed;
    for (int core = 0; core < 300; ++core)
      if (random() % 3 != 0) allowed.push_back(core);
    const std::size_t ranks = 2 + random() % 40;
    Cores all;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Cores share = share_of_cores(allowed, {}, rank, ranks);
      ASSERT_GE(share.size(), allowed.size() / ranks);
      all.insert(all.end(), share.begin(), share.end());
    }
    ASSERT_EQ(all, allowed);
  }
}

TEST(OnCores, holds_threads_that_are_started_meanwhile) {
  std::thread([] {
    const Cores before = allowed_cores();
    ASSERT_FALSE(before.empty());
    const auto seen_by_another = [] {
      Cores seen;
      std::thread([&] { seen = allowed_cores(); }).join();
      return seen;
    };
    {
      const OnCores place({before.back()});
      EXPECT_EQ(seen_by_another(), Cores{before.back()});
    }
    EXPECT_EQ(allowed_cores(), before);
    EXPECT_EQ(seen_by_another(), before);
    for (const Cores& none : {Cores{}, Cores{60'000}}) {
      const OnCores place(none);
      EXPECT_EQ(allowed_cores(), before);
    }
    EXPECT_EQ(allowed_cores(), before);
  }).join();
}

}  // namespace
}  // namespace damacy
