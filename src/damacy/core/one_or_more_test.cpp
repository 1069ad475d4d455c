#include "damacy/core/one_or_more.h"

#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(OneOrMore, keeps_its_elements_in_order) {
  for (int count = 0; count < 5; ++count) {
    OneOrMore<std::unique_ptr<int>> all;
    for (int i = 0; i < count; ++i) {
      if (i % 2 == 0)
        all.push_back(std::make_unique<int>(i));
      else
        all.emplace_back() = std::make_unique<int>(i);
    }
    ASSERT_EQ(all.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(all.empty(), count == 0);
    EXPECT_EQ(all.end() - all.begin(), count);
    for (int i = 0; i < count; ++i) EXPECT_EQ(*all[static_cast<std::size_t>(i)], i);
    if (count > 0) {
      EXPECT_EQ(*all.front(), 0);
      EXPECT_EQ(*all.back(), count - 1);
    }
    const auto moved = std::move(all);
    EXPECT_EQ(moved.size(), static_cast<std::size_t>(count));
    EXPECT_TRUE(all.empty());  // NOLINT(bugprone-use-after-move): it promises so
  }
}

TEST(OneOrMore, has_one_element_inside) {
  OneOrMore<int> all{7};
  const auto* const bytes = reinterpret_cast<const std::byte*>(all.data());
  EXPECT_GE(bytes, reinterpret_cast<const std::byte*>(&all));
  EXPECT_LT(bytes, reinterpret_cast<const std::byte*>(&all + 1));
}

TEST(OneOrMore, is_copied_assigned_and_cleared) {
  OneOrMore<int> few{1}, many{2, 3, 4};
  const OneOrMore<int> copy = many;
  few = many;
  EXPECT_EQ(std::accumulate(few.begin(), few.end(), 0), 9);
  many = {5};
  EXPECT_EQ(many.size(), 1U);
  EXPECT_EQ(many[0], 5);
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0), 9);
  few = std::vector{6};
  few.push_back(7);
  EXPECT_EQ(few.size(), 2U);
  EXPECT_EQ(few.front(), 6);
  few.clear();
  EXPECT_TRUE(few.empty());
  few.push_back(8);
  EXPECT_EQ(few.back(), 8);
}

}  // namespace
}  // namespace damacy
