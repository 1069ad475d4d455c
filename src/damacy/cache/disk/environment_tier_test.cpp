// The sizes that the variables may have. What the tier does for reads: tests/end_to_end/test_disk_environment.py.
#include "damacy/cache/disk/environment_tier.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(BytesOfText, takes_numbers_and_units) {
  EXPECT_EQ(bytes_of_text("0"), 0u);
  EXPECT_EQ(bytes_of_text("268435456"), 268435456u);
  EXPECT_EQ(bytes_of_text("500GiB"), std::uint64_t{500} << 30);
  EXPECT_EQ(bytes_of_text("512 mib"), std::uint64_t{512} << 20);
  EXPECT_EQ(bytes_of_text("1.5GB"), 1'500'000'000u);
  EXPECT_EQ(bytes_of_text("2 TB"), 2'000'000'000'000u);
  EXPECT_EQ(bytes_of_text("7b"), 7u);
}

TEST(BytesOfText, refuses_everything_else) {
  for (const char* text :
       {"", "forty", "-1", "1e3", "nan", "inf", "1 XB", "1GiBs", "GiB", "1 2", "0x10", "1i", "9999999TiB"})
    EXPECT_FALSE(bytes_of_text(text)) << text;
}

}  // namespace
}  // namespace damacy
