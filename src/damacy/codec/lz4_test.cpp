// LZ4 blocks with the size in front, built byte by byte.
#include "damacy/codec/lz4.h"

#include <gtest/gtest.h>

#include "support/encoders.h"
#include "support/oracles.h"

namespace damacy {
namespace {

using namespace codec_test;

DecodeStatus status_of(const Bytes& encoded, std::size_t size) {
  Bytes out(size, std::byte{0xa5});
  return decode_lz4(encoded, out).status;
}

TEST(Lz4, decodes_what_the_reference_library_packs) {
  for (const std::size_t size : {1, 13, 1000, 100'000}) {
    const Bytes raw = image(size);
    Bytes out(size, std::byte{0xa5});
    ASSERT_TRUE(decode_lz4(with_size_in_front(static_cast<std::uint32_t>(size), lz4_packed(raw)), out).ok());
    EXPECT_EQ(out, raw);
  }
}

TEST(Lz4, decodes_a_golden_block_with_an_overlapping_match) {
  // 1 literal 'a', match of 14 at offset 1, then 5 literals.
  const Bytes block = bytes_of({0x1a, 'a', 1, 0, 0x50, 'b', 'c', 'd', 'e', 'f'});
  Bytes out(20, std::byte{0xa5});
  ASSERT_TRUE(decode_lz4(with_size_in_front(20, block), out).ok());
  EXPECT_EQ(out, text_bytes("aaaaaaaaaaaaaaabcdef"));
}

TEST(Lz4, both_forms_of_no_bytes_are_right) {
  EXPECT_EQ(status_of(bytes_of({0, 0, 0, 0}), 0), DecodeStatus::ok);
  EXPECT_EQ(status_of(bytes_of({0, 0, 0, 0, 0}), 0), DecodeStatus::ok);
  EXPECT_EQ(status_of(bytes_of({0, 0, 0, 0, 0, 0}), 0), DecodeStatus::frame);
  EXPECT_EQ(status_of(bytes_of({0, 0, 0}), 0), DecodeStatus::frame);
}

TEST(Lz4, the_size_in_front_must_be_the_expected_one) {
  const Bytes block = lz4_packed(image(100));
  EXPECT_EQ(status_of(with_size_in_front(100, block), 100), DecodeStatus::ok);
  EXPECT_EQ(status_of(with_size_in_front(99, block), 100), DecodeStatus::size);
  EXPECT_EQ(status_of(with_size_in_front(0xffffffff, block), 100), DecodeStatus::size);
  EXPECT_NE(status_of(with_size_in_front(99, block), 99), DecodeStatus::ok);
  EXPECT_EQ(status_of(with_size_in_front(101, block), 101), DecodeStatus::size);
}

TEST(Lz4, offset_zero_and_an_offset_before_the_first_byte_are_refused) {
  EXPECT_EQ(status_of(with_size_in_front(20, bytes_of({0x1a, 'a', 0, 0, 0x50, 'b', 'c', 'd', 'e', 'f'})), 20),
            DecodeStatus::frame);
  EXPECT_EQ(status_of(with_size_in_front(20, bytes_of({0x1a, 'a', 2, 0, 0x50, 'b', 'c', 'd', 'e', 'f'})), 20),
            DecodeStatus::frame);
}

TEST(Lz4, a_block_that_does_not_end_in_literals_is_refused) {
  EXPECT_EQ(status_of(with_size_in_front(15, bytes_of({0x1a, 'a', 1, 0})), 15), DecodeStatus::frame);
}

TEST(Lz4, a_length_of_many_255s_is_refused) {
  Bytes block = bytes_of({0xf0});
  block.resize(100'000, std::byte{0xff});
  EXPECT_EQ(status_of(with_size_in_front(1000, block), 1000), DecodeStatus::frame);
}

TEST(Lz4, every_truncation_is_an_error) {
  const Bytes packed = with_size_in_front(200, lz4_packed(image(200)));
  for (std::size_t size = 0; size < packed.size(); ++size)
    EXPECT_NE(status_of({packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)}, 200), DecodeStatus::ok);
}

TEST(Lz4, every_changed_byte_gives_an_error_or_what_the_definition_gives) {
  Bytes block = lz4_packed(image(200));
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < block.size(); ++at)
    for (unsigned change = 1; change < 256; ++change) {
      block[at] ^= static_cast<std::byte>(change);
      Bytes out(200, std::byte{0xa5});
      if (decode_lz4_block(block, out).ok()) {
        ++accepted;
        ASSERT_EQ(naive_lz4(block, 200), Maybe(out)) << "byte " << at << " change " << change;
      }
      block[at] ^= static_cast<std::byte>(change);
    }
  EXPECT_GT(accepted, 0u);
}

}  // namespace
}  // namespace damacy
