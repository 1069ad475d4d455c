// CRC-32C against the check values everybody prints.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "damacy/codec/chain.h"

namespace damacy {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32c, gives_the_check_value_of_the_digits) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
}

TEST(Crc32c, of_nothing_is_zero) {
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, gives_the_values_of_rfc_3720_for_32_bytes) {
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
}

}  // namespace
}  // namespace damacy
