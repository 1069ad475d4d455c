#include "damacy/core/cores.h"

#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace damacy {
namespace {

TEST(usable_cores, are_those_of_the_affinity_mask) {
  std::size_t with_one = 0;
  std::thread bound([&] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    EXPECT_EQ(usable_cores(), static_cast<std::size_t>(CPU_COUNT(&mask)));
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    with_one = usable_cores();
  });
  bound.join();
  EXPECT_EQ(with_one, 1u);
}

}  // namespace
}  // namespace damacy
