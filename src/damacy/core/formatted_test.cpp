#include "damacy/core/formatted.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace damacy {
namespace {

TEST(Formatted, puts_each_value_in_the_place_of_its_placeholder) {
  EXPECT_EQ(formatted("read {} of {} bytes of {}", 12, std::uint64_t{40}, std::string("c/0/1")),
            "read 12 of 40 bytes of c/0/1");
}

TEST(Formatted, keeps_a_value_that_looks_like_a_placeholder) {
  EXPECT_EQ(formatted("key {}: {}", "{}", 1), "key {}: 1");
}

TEST(Formatted, takes_a_doubled_brace_as_one) {
  EXPECT_EQ(formatted("{{\"a\": {}}}", true), "{\"a\": true}");
}

TEST(Formatted, begins_or_ends_with_a_value) {
  EXPECT_EQ(formatted("{} and {}", 'a', 2.5), "a and 2.5");
}

TEST(Formatted, keeps_a_NUL_of_the_literal) {
  EXPECT_EQ(formatted("{}\0{}", "a", "b"), std::string("a\0b", 3));
}

TEST(Formatted, counts_placeholders) {
  static_assert(detail::count_placeholders("no value") == 0);
  static_assert(detail::count_placeholders("{}{}{{}}") == 2);
}

}  // namespace
}  // namespace damacy
