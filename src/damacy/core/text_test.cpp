#include "damacy/core/text.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(Trimmed, takes_white_space_from_both_ends_and_keeps_it_inside) {
  EXPECT_EQ(trimmed(" \t\r\n\v\fa b \t\r\n\v\f"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed(" \n"), "");
}

}  // namespace
}  // namespace damacy
