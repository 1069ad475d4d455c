#include "damacy/core/cores.h"

#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace damacy {
namespace {

TEST(affinity_cores, are_those_of_the_affinity_mask) {
  std::size_t with_one = 0;
  std::thread bound([&] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    EXPECT_EQ(affinity_cores(), static_cast<std::size_t>(CPU_COUNT(&mask)));
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    with_one = affinity_cores();
  });
  bound.join();
  EXPECT_EQ(with_one, 1u);
}

TEST(usable_cores, are_some_of_them) {
  EXPECT_GE(usable_cores(), 1u);
  EXPECT_LE(usable_cores(), affinity_cores());
}

TEST(whole_cores, rounds_up_and_is_at_least_one) {
  EXPECT_EQ(whole_cores(0.01), 1u);
  EXPECT_EQ(whole_cores(1.0), 1u);
  EXPECT_EQ(whole_cores(2.5), 3u);
  EXPECT_GE(whole_cores(1e300), 1024u);
}

}  // namespace
}  // namespace damacy
