// Frame and block headers built byte by byte: what the walk gives, and what it refuses with which status.
#include "damacy/codec/zstd_walk.h"

#include <gtest/gtest.h>

#include "support/encoders.h"

namespace damacy {
namespace {

using codec_test::append;
using codec_test::Bytes;
using codec_test::bytes_of;
using codec_test::joined;
using codec_test::text_bytes;
using codec_test::zstd_block;
using codec_test::zstd_header;
using codec_test::zstd_raw_block;
using codec_test::zstd_rle_block;
using codec_test::zstd_skippable;
using codec_test::ZstdHeader;

// Walks everything; the last frame walked.
DecodeResult walk_all(const Bytes& input, ZstdFrame& frame) {
  ZstdWalk walk(input.data(), input.size());
  DecodeResult result;
  while (result.ok() && !walk.at_end()) {
    result = walk.next_frame(frame);
    ZstdBlock block;
    while (result.ok() && !frame.skippable && !block.last) result = walk.next_block(frame, block);
  }
  return result;
}

DecodeStatus status_of(const Bytes& input) {
  ZstdFrame frame;
  return walk_all(input, frame).status;
}

// A frame of five raw bytes behind `header`.
Bytes five_raw(const ZstdHeader& header) {
  Bytes bytes = joined({zstd_header(header), zstd_raw_block(text_bytes("hello"), /*last=*/true)});
  if (header.checksum) append(bytes, codec_test::zstd_checksum_of(text_bytes("hello")));
  return bytes;
}

TEST(ZstdWalk, gives_offsets_of_a_frame_and_its_blocks) {
  const Bytes input = joined(
      {zstd_header({.window_byte = 0x00}), zstd_raw_block(text_bytes("abc"), false), zstd_rle_block('x', 1000, true)});
  ZstdWalk walk(input.data(), input.size());
  ZstdFrame frame;
  ASSERT_TRUE(walk.next_frame(frame).ok());
  EXPECT_EQ(frame.begin, 0u);
  EXPECT_EQ(frame.blocks, 6u);
  EXPECT_EQ(frame.window, 1024u);
  EXPECT_EQ(frame.block_limit, 1024u);
  EXPECT_FALSE(frame.has_content_size);
  ZstdBlock block;
  ASSERT_TRUE(walk.next_block(frame, block).ok());
  EXPECT_EQ(block.begin, 6u);
  EXPECT_EQ(block.data, 9u);
  EXPECT_EQ(block.size, 3u);
  EXPECT_EQ(block.type, ZstdBlockType::raw);
  EXPECT_FALSE(block.last);
  ASSERT_TRUE(walk.next_block(frame, block).ok());
  EXPECT_EQ(block.data, 15u);
  EXPECT_EQ(block.stored, 1u);
  EXPECT_EQ(block.size, 1000u);
  EXPECT_EQ(block.type, ZstdBlockType::rle);
  EXPECT_TRUE(block.last);
  EXPECT_EQ(frame.end, input.size());
  EXPECT_EQ(frame.least, 1003u);
  EXPECT_EQ(frame.most, 1003u);
  EXPECT_TRUE(walk.at_end());
}

TEST(ZstdWalk, reads_a_content_size_of_every_width) {
  for (const unsigned width : {1u, 2u, 4u, 8u}) {
    const std::uint64_t size = width == 2 ? 300 : 5;
    const Bytes input = joined({zstd_header({.content_size = size, .size_bytes = width}),
                                zstd_rle_block('x', static_cast<std::uint32_t>(size), true)});
    ZstdFrame frame;
    ASSERT_TRUE(walk_all(input, frame).ok()) << width;
    EXPECT_TRUE(frame.has_content_size);
    EXPECT_EQ(frame.content_size, size);
  }
}

TEST(ZstdWalk, window_of_a_single_segment_is_its_content) {
  ZstdFrame frame;
  ASSERT_TRUE(walk_all(five_raw({.content_size = 5, .size_bytes = 4, .window_byte = -1}), frame).ok());
  EXPECT_EQ(frame.window, 5u);
  EXPECT_EQ(frame.block_limit, 5u);
}

TEST(ZstdWalk, window_may_be_two_to_the_31_and_no_more) {
  ZstdFrame frame;
  ASSERT_TRUE(walk_all(five_raw({.window_byte = 21 << 3}), frame).ok());
  EXPECT_EQ(frame.window, std::uint64_t{1} << 31);
  EXPECT_EQ(frame.block_limit, 128u << 10);
  EXPECT_EQ(status_of(five_raw({.window_byte = 21 << 3 | 1})), DecodeStatus::limit);
  EXPECT_EQ(status_of(five_raw({.window_byte = 0xff})), DecodeStatus::limit);
}

TEST(ZstdWalk, a_dictionary_id_of_zero_is_none_and_any_other_is_refused) {
  for (const unsigned width : {1u, 2u, 4u}) {
    EXPECT_EQ(status_of(five_raw({.dictionary_bytes = width, .dictionary = 0})), DecodeStatus::ok);
    EXPECT_EQ(status_of(five_raw({.dictionary_bytes = width, .dictionary = 7})), DecodeStatus::dictionary);
  }
}

TEST(ZstdWalk, the_reserved_bit_is_refused_and_the_unused_one_is_not) {
  EXPECT_EQ(status_of(five_raw({.extra_bits = 0x08})), DecodeStatus::frame);
  EXPECT_EQ(status_of(five_raw({.extra_bits = 0x10})), DecodeStatus::ok);
}

TEST(ZstdWalk, block_type_three_is_refused) {
  EXPECT_EQ(status_of(joined({zstd_header({}), zstd_block(3, 1, bytes_of({0}), true)})), DecodeStatus::frame);
}

TEST(ZstdWalk, a_block_may_be_as_large_as_the_window_and_no_larger) {
  const auto frame_of = [](std::uint32_t size) {
    return joined({zstd_header({.window_byte = 0}), zstd_rle_block('x', size, true)});
  };
  EXPECT_EQ(status_of(frame_of(1023)), DecodeStatus::ok);
  EXPECT_EQ(status_of(frame_of(1024)), DecodeStatus::ok);
  EXPECT_EQ(status_of(frame_of(1025)), DecodeStatus::frame);
}

TEST(ZstdWalk, a_block_may_be_128_KiB_and_no_larger_however_large_the_window) {
  const auto frame_of = [](std::uint32_t size) {
    return joined({zstd_header({.window_byte = 21 << 3}), zstd_rle_block('x', size, true)});
  };
  EXPECT_EQ(status_of(frame_of((128 << 10) - 1)), DecodeStatus::ok);
  EXPECT_EQ(status_of(frame_of(128 << 10)), DecodeStatus::ok);
  EXPECT_EQ(status_of(frame_of((128 << 10) + 1)), DecodeStatus::frame);
}

TEST(ZstdWalk, a_compressed_block_has_two_bytes_at_least) {
  EXPECT_EQ(status_of(joined({zstd_header({}), zstd_block(2, 1, bytes_of({0}), true)})), DecodeStatus::frame);
  EXPECT_EQ(status_of(joined({zstd_header({}), zstd_block(2, 2, bytes_of({0, 0}), true)})), DecodeStatus::ok);
}

TEST(ZstdWalk, content_size_must_lie_between_what_the_blocks_can_give) {
  EXPECT_EQ(status_of(five_raw({.content_size = 4, .size_bytes = 4})), DecodeStatus::size);
  EXPECT_EQ(status_of(five_raw({.content_size = 5, .size_bytes = 4})), DecodeStatus::ok);
  EXPECT_EQ(status_of(five_raw({.content_size = 6, .size_bytes = 4})), DecodeStatus::size);
}

TEST(ZstdWalk, skippable_frames_of_all_sixteen_numbers_are_passed) {
  for (unsigned nibble = 0; nibble < 16; ++nibble) {
    ZstdFrame frame;
    ASSERT_TRUE(walk_all(zstd_skippable(nibble, text_bytes("note")), frame).ok());
    EXPECT_TRUE(frame.skippable);
    EXPECT_EQ(frame.blocks, 8u);
    EXPECT_EQ(frame.end, 12u);
  }
}

TEST(ZstdWalk, sixty_four_frames_pass_and_one_more_is_over_the_limit) {
  Bytes input;
  for (int i = 0; i < 32; ++i) {
    append(input, zstd_skippable(0, {}));
    append(input, five_raw({}));
  }
  EXPECT_EQ(status_of(input), DecodeStatus::ok);
  append(input, zstd_skippable(0, {}));
  EXPECT_EQ(status_of(input), DecodeStatus::limit);
}

TEST(ZstdWalk, other_magic_numbers_and_trailing_bytes_are_refused) {
  Bytes older = five_raw({});
  older[0] = std::byte{0x27};  // version 0.7
  EXPECT_EQ(status_of(older), DecodeStatus::frame);
  for (const Bytes& tail : {bytes_of({0}), bytes_of({0, 0, 0, 0}), bytes_of({0x28, 0xb5, 0x2f})})
    EXPECT_EQ(status_of(joined({five_raw({}), tail})), DecodeStatus::frame);
}

TEST(ZstdWalk, every_truncation_is_refused) {
  const Bytes whole = joined({zstd_skippable(3, text_bytes("xy")),
                              five_raw({.content_size = 5, .size_bytes = 8, .checksum = true, .dictionary_bytes = 4})});
  ASSERT_EQ(status_of(whole), DecodeStatus::ok);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (size == 10) continue;  // the skippable frame alone is whole
    EXPECT_EQ(status_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), DecodeStatus::frame)
        << size;
  }
}

}  // namespace
}  // namespace damacy
