#include "damacy/core/stable_vector.h"

#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(StableVector, keeps_addresses_and_order) {
  StableVector<int, 4> items;
  std::vector<int*> addresses;
  for (int i = 0; i < 50; ++i) addresses.push_back(&items.emplace_back(i));
  EXPECT_EQ(items.size(), 50);
  EXPECT_EQ(items.back(), 49);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(&items[i], addresses[i]);
    EXPECT_EQ(items[i], static_cast<int>(i));
  }
}

TEST(StableVector, destroys_each_item_once) {
  const auto owned = std::make_shared<int>(1);
  {
    StableVector<std::shared_ptr<int>, 4> items;
    EXPECT_TRUE(items.empty());
    for (int i = 0; i < 9; ++i) items.emplace_back(owned);
    EXPECT_EQ(owned.use_count(), 10);
    items.pop_back();
    EXPECT_EQ(owned.use_count(), 9);
    items.emplace_back(owned);
    EXPECT_EQ(items.size(), 9);
  }
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(StableVector, is_unchanged_by_an_item_that_throws) {
  struct Throws {
    explicit Throws(bool throws) {
      if (throws) throw std::runtime_error("no");
    }
  };
  StableVector<Throws, 2> items;
  items.emplace_back(false);
  EXPECT_THROW(items.emplace_back(true), std::runtime_error);
  EXPECT_EQ(items.size(), 1);
  items.emplace_back(false);
  EXPECT_EQ(items.size(), 2);
}

}  // namespace
}  // namespace damacy
