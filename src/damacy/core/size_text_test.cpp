#include "damacy/core/size_text.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(size_text, has_one_decimal_of_the_largest_unit_that_fits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(262'400), "256.2 KiB");
  EXPECT_EQ(size_text(std::int64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(size_text(std::uint64_t{3} << 39), "1.5 TiB");
}

TEST(size_text, never_rounds_up_to_1024_of_a_unit) {
  EXPECT_EQ(size_text((1 << 20) - 60), "1023.9 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
}

TEST(size_text, has_no_unit_above_tib) {
  EXPECT_EQ(size_text(std::numeric_limits<std::uint64_t>::max()), "16777216.0 TiB");
}

}  // namespace
}  // namespace damacy
