#include "damacy/core/log_limit.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

using namespace std::chrono_literals;

TEST(LogLimit, admits_ten_in_a_second_and_counts_the_rest) {
  LogLimit limit;
  int admitted = 0;
  for (int i = 0; i < 25; ++i) admitted += limit.admits("skipped", 1ms * i) ? 1 : 0;
  EXPECT_EQ(admitted, 10);
  EXPECT_TRUE(limit.take_kept_back(999ms, false).empty());
  EXPECT_EQ(limit.take_kept_back(1000ms, false), (std::vector{std::pair(std::string("skipped"), std::uint64_t{15})}));
  EXPECT_TRUE(limit.take_kept_back(2000ms, false).empty());
}

TEST(LogLimit, begins_anew_each_second_and_forgets_nothing) {
  LogLimit limit;
  for (int i = 0; i < 12; ++i) limit.admits("a", 0ms);
  EXPECT_TRUE(limit.admits("a", 1s));
  for (int i = 0; i < 10; ++i) limit.admits("a", 1s);
  EXPECT_EQ(limit.take_kept_back(1s, true), (std::vector{std::pair(std::string("a"), std::uint64_t{3})}));
}

TEST(LogLimit, one_kind_does_not_silence_another) {
  LogLimit limit;
  for (int i = 0; i < 20; ++i) limit.admits("a", 0ms);
  EXPECT_TRUE(limit.admits("b", 0ms));
}

}  // namespace
}  // namespace damacy
