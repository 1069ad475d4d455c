// Fletcher-32 and lookup3 give the numbers that numcodecs 0.16.6 gave for the same bytes.
#include "damacy/codec/checksums.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace damacy {
namespace {

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

struct Expected {
  std::size_t size;
  std::uint32_t fletcher, hash, hash_from_7;
};

TEST(Checksums, are_those_of_numcodecs) {
  constexpr Expected kExpected[] = {{1, 0x0b000b00, 0xb9c0f036, 0xc4e2d015},   {2, 0x0b300b30, 0x76ccdd71, 0xd5f9fb92},
                                    {3, 0x6b606030, 0xa71025c3, 0x1fb20c7c},   {11, 0x0c7499d6, 0x37d9d710, 0xca4a33f1},
                                    {12, 0x0d169a78, 0x387958f9, 0xe231ac22},  {13, 0x6e8f6179, 0x0d543670, 0x6865f7ab},
                                    {24, 0x286e9d59, 0x2d9723a7, 0x47a57c33},  {25, 0x48c8205a, 0x43bd1aa6, 0xa84a0391},
                                    {4001, 0xa50ceedb, 0x7e99a5d5, 0xf2675c02}};
  for (const Expected& expected : kExpected) {
    EXPECT_EQ(fletcher32(counted(expected.size)), expected.fletcher) << expected.size;
    EXPECT_EQ(lookup3(counted(expected.size), 0), expected.hash) << expected.size;
    EXPECT_EQ(lookup3(counted(expected.size), 7), expected.hash_from_7) << expected.size;
  }
}

TEST(Checksums, of_zeros_and_ones_do_not_overflow) {
  EXPECT_EQ(fletcher32(std::vector<std::byte>(5000)), 0u);
  EXPECT_EQ(fletcher32(std::vector<std::byte>(100'000, std::byte{0xff})), 0xffffffffu);
  EXPECT_EQ(fletcher32(std::vector<std::byte>(5'000'000, std::byte{0xff})), 0xffffffffu);
  EXPECT_EQ(fletcher32(std::vector<std::byte>(1001, std::byte{0xff})), 0xff00ff00u);
}

TEST(Checksums, of_nothing) {
  EXPECT_EQ(fletcher32({}), 0u);
  EXPECT_EQ(lookup3({}, 0), 0xdeadbeefu);
}

}  // namespace
}  // namespace damacy
