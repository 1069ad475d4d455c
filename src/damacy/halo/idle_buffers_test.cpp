// Which idle buffer is lent, and which go first.
#include "damacy/halo/idle_buffers.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace damacy::halo {
namespace {

using Idle = IdleBuffers<std::string, int, int>;

std::vector<int> numbers(const Idle::Entries& entries) {
  std::vector<int> out;
  for (const auto& entry : entries) out.push_back(entry.buffer);
  return out;
}

TEST(IdleBuffers, the_newest_of_a_kind_is_lent_first) {
  Idle idle;
  idle.add({"a", 0, 10, 1});
  idle.add({"b", 0, 10, 2});
  idle.add({"a", 0, 10, 3});
  EXPECT_EQ(idle.take("a")->buffer, 3);
  EXPECT_EQ(idle.take("a")->buffer, 1);
  EXPECT_FALSE(idle.take("a"));
  EXPECT_FALSE(idle.take("c"));
  EXPECT_EQ(idle.bytes(), 10u);
}

TEST(IdleBuffers, the_oldest_of_a_memory_go_until_the_limit_is_kept) {
  Idle idle;
  idle.add({"a", 0, 40, 1});
  idle.add({"a", 1, 40, 2});
  idle.add({"b", 0, 40, 3});
  idle.add({"a", 0, 40, 4});
  EXPECT_EQ(numbers(idle.drop(0, 80)), (std::vector<int>{1}));
  EXPECT_EQ(idle.bytes(0), 80u);
  EXPECT_EQ(idle.bytes(1), 40u);
  EXPECT_EQ(numbers(idle.drop(0, 79)), (std::vector<int>{3}));
  EXPECT_EQ(numbers(idle.drop_oldest()), (std::vector<int>{2}));
  EXPECT_EQ(numbers(idle.drop(0, 0)), (std::vector<int>{4}));
  EXPECT_TRUE(idle.drop_oldest().empty());
  EXPECT_EQ(idle.bytes(), 0u);
}

}  // namespace
}  // namespace damacy::halo
