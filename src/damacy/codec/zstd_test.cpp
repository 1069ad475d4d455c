// Decoding zstd: the shapes that writers make seldom, early stops, and mutated frames against the reference library.
#include "damacy/codec/zstd.h"

#include <gtest/gtest.h>

#include "damacy/codec/zstd_walk.h"
#include "support/encoders.h"
#include "support/oracles.h"

namespace damacy {
namespace {

using namespace codec_test;

constexpr std::byte kPoison{0xa5};

struct Decoded {
  DecodeResult result;
  Bytes out;
};

Decoded decode(const Bytes& encoded, std::size_t size, std::uint64_t needed_end) {
  ZstdDecoder decoder;
  Decoded decoded{{}, Bytes(size, kPoison)};
  decoded.result = decoder.decode(encoded, decoded.out, needed_end);
  return decoded;
}

void expect_decodes(const Bytes& encoded, const Bytes& raw) {
  const Decoded decoded = decode(encoded, raw.size(), raw.size());
  EXPECT_TRUE(decoded.result.ok()) << decoded.result.detail;
  EXPECT_EQ(decoded.out, raw);
}

DecodeStatus status_of(const Bytes& encoded, std::size_t size) {
  return decode(encoded, size, size).result.status;
}

TEST(Zstd, decodes_what_the_reference_library_packs) {
  for (const std::size_t size : {0, 1, 100, 5000, 300'000})
    for (const int level : {-5, 1, 3, 19}) {
      expect_decodes(zstd_packed(image(size), level), image(size));
      expect_decodes(zstd_packed(noise(size), level, /*checksum=*/true), noise(size));
    }
}

TEST(Zstd, decodes_streams_without_content_size_and_with_a_window_larger_than_the_chunk) {
  const Bytes raw = image(100'000);
  expect_decodes(zstd_streamed(raw, 27, /*checksum=*/true, 7000), raw);
  expect_decodes(zstd_streamed(raw, 10, /*checksum=*/false, 30'000), raw);
}

TEST(Zstd, a_window_of_two_GiB_sizes_nothing) {
  expect_decodes(joined({zstd_header({.window_byte = 21 << 3}), zstd_raw_block(text_bytes("hello"), true)}),
                 text_bytes("hello"));
}

TEST(Zstd, joins_several_frames_and_passes_skippable_and_empty_ones) {
  const Bytes a = image(3000), b = noise(500);
  const Bytes empty = joined({zstd_header({}), zstd_raw_block({}, true)});
  expect_decodes(joined({zstd_skippable(0, text_bytes("x")), zstd_packed(a), empty, zstd_streamed(b, 17, true, 100),
                         zstd_skippable(15, {})}),
                 joined({a, b}));
}

TEST(Zstd, decodes_raw_rle_and_empty_blocks) {
  expect_decodes(joined({zstd_header({}), zstd_raw_block({}, false), zstd_rle_block('x', 3, false),
                         zstd_rle_block('y', 0, false), zstd_raw_block(text_bytes("abc"), true)}),
                 text_bytes("xxxabc"));
}

TEST(Zstd, empty_input_is_right_for_no_bytes_only) {
  EXPECT_EQ(status_of({}, 0), DecodeStatus::ok);
  EXPECT_EQ(status_of({}, 1), DecodeStatus::size);
}

TEST(Zstd, a_content_that_is_not_of_the_expected_size_is_refused) {
  for (const Bytes& packed : {zstd_packed(image(1000)), zstd_streamed(image(1000), 17, false, 100)}) {
    EXPECT_EQ(status_of(packed, 999), DecodeStatus::size);
    EXPECT_EQ(status_of(packed, 1000), DecodeStatus::ok);
    EXPECT_EQ(status_of(packed, 1001), DecodeStatus::size);
  }
}

TEST(Zstd, a_block_that_gives_more_than_its_window_is_refused_whether_all_of_it_is_needed_or_a_part) {
  Bytes raw;
  while (raw.size() < 5000) append(raw, text_bytes("a few words "));
  const Bytes packed = zstd_packed(raw);  // one compressed block of few bytes
  ZstdWalk walk(packed.data(), packed.size());
  ZstdFrame frame;
  ASSERT_TRUE(walk.next_frame(frame).ok());
  const Bytes blocks{packed.begin() + static_cast<std::ptrdiff_t>(frame.blocks), packed.end()};
  ASSERT_LT(blocks.size(), 1024u);
  const Bytes wide = joined({zstd_header({.window_byte = 3 << 3}), blocks});  // 8 KiB
  const Bytes narrow = joined({zstd_header({.window_byte = 0}), blocks});     // 1 KiB
  expect_decodes(wide, raw);
  Bytes out(1024, kPoison);
  ZstdDecoder decoder;
  EXPECT_FALSE(decoder.decode(narrow, out, 1024).ok());
  EXPECT_FALSE(decode(narrow, raw.size(), raw.size()).result.ok());
  EXPECT_FALSE(decode(narrow, raw.size(), 1).result.ok());
}

TEST(Zstd, a_wrong_content_checksum_is_reported) {
  Bytes packed = zstd_packed(image(1000), 3, /*checksum=*/true);
  packed.back() ^= std::byte{1};
  EXPECT_EQ(status_of(packed, 1000), DecodeStatus::checksum);
}

TEST(Zstd, a_match_may_not_reach_before_its_own_frame) {
  const Bytes first = noise(2000), dictionary = first;
  Bytes second(ZSTD_compressBound(first.size()));
  ZSTD_CCtx* context = ZSTD_createCCtx();
  second.resize(ZSTD_compress_usingDict(context, second.data(), second.size(), first.data(), first.size(),
                                        dictionary.data(), dictionary.size(),
                                        3));  // matches reach into `first` as if it stood in front
  ZSTD_freeCCtx(context);
  ASSERT_LT(second.size(), 100u);
  EXPECT_EQ(status_of(joined({zstd_packed(first), second}), 4000), DecodeStatus::frame);
}

TEST(Zstd, tables_are_not_taken_from_an_earlier_frame) {
  // Literals of type 3 (the Huffman table of the block before), 8 of them in 1 byte; then no sequences.
  const Bytes treeless = zstd_block(2, 5, bytes_of({0x83, 0x40, 0x00, 0xff, 0x00}), true);
  EXPECT_EQ(status_of(joined({zstd_packed(image(5000)), zstd_header({}), treeless}), 5008), DecodeStatus::frame);
}

TEST(Zstd, stops_behind_the_block_of_the_last_needed_byte) {
  const Bytes raw = image(600'000);
  Bytes packed = zstd_packed(raw);
  packed[packed.size() - 10] ^= std::byte{0xff};  // in the last block's data
  ASSERT_EQ(status_of(packed, raw.size()), DecodeStatus::frame);
  const Decoded head = decode(packed, raw.size(), 200'000);
  ASSERT_TRUE(head.result.ok());
  EXPECT_TRUE(std::equal(raw.begin(), raw.begin() + 200'000, head.out.begin()));
  EXPECT_EQ(head.out.back(), kPoison);
}

TEST(Zstd, does_not_stop_early_where_a_checksum_stands) {
  const Bytes raw = image(600'000);
  Bytes packed = zstd_packed(raw, 3, /*checksum=*/true);
  packed.back() ^= std::byte{1};
  EXPECT_EQ(decode(packed, raw.size(), 10).result.status, DecodeStatus::checksum);
}

TEST(Zstd, skips_frames_that_are_not_needed_and_decodes_a_later_one_that_has_a_checksum) {
  const Bytes raw = image(9000);
  const Bytes a{raw.begin(), raw.begin() + 4000}, b{raw.begin() + 4000, raw.end()};
  const Bytes packed = joined({zstd_packed(a), zstd_packed(b, 3, /*checksum=*/true)});
  for (const std::uint64_t needed : {0, 1, 3999, 4000, 4001, 9000}) {
    const Decoded decoded = decode(packed, raw.size(), needed);
    ASSERT_TRUE(decoded.result.ok());
    EXPECT_TRUE(std::equal(raw.begin(), raw.begin() + static_cast<std::ptrdiff_t>(needed), decoded.out.begin()));
  }
}

TEST(Zstd, every_needed_end_gives_the_bytes_before_it) {
  const Bytes raw = image(3000);
  const Bytes packed =
      joined({zstd_streamed({raw.data(), 2000}, 17, false, 300), zstd_packed({raw.data() + 2000, 1000})});
  ZstdDecoder decoder;
  for (std::size_t needed = 0; needed <= raw.size(); ++needed) {
    Bytes out(raw.size(), kPoison);
    ASSERT_TRUE(decoder.decode(packed, out, needed).ok());
    ASSERT_TRUE(std::equal(raw.begin(), raw.begin() + static_cast<std::ptrdiff_t>(needed), out.begin())) << needed;
  }
}

TEST(Zstd, decodes_an_unknown_size_up_to_a_bound) {
  ZstdDecoder decoder;
  const Bytes raw = image(5000);
  std::uint64_t produced = 0;
  for (const Bytes& packed : {zstd_packed(raw), zstd_streamed(raw, 17, true, 900)}) {
    Bytes out(6000, kPoison);
    ASSERT_TRUE(decoder.decode_up_to(packed, out, produced).ok());
    EXPECT_EQ(produced, 5000u);
    EXPECT_TRUE(std::equal(raw.begin(), raw.end(), out.begin()));
    Bytes small(4999, kPoison);
    EXPECT_EQ(decoder.decode_up_to(packed, small, produced).status, DecodeStatus::size);
  }
}

// A frame with Huffman literals, sequences, a raw and an rle block.
Bytes small_frame(Bytes& raw, bool checksum) {
  raw = joined({image(180), Bytes(40, std::byte{7}), noise(20)});
  return zstd_streamed(raw, 10, checksum, 90);
}

TEST(Zstd, every_truncation_is_an_error) {
  Bytes raw;
  const Bytes packed = small_frame(raw, true);
  for (std::size_t size = 0; size < packed.size(); ++size)
    EXPECT_NE(status_of({packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)}, raw.size()),
              DecodeStatus::ok);
}

TEST(Zstd, every_changed_byte_gives_an_error_or_the_reference_bytes) {
  Bytes raw;
  Bytes packed = small_frame(raw, false);
  ZstdDecoder decoder;
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < packed.size(); ++at)
    for (unsigned change = 1; change < 256; ++change) {
      packed[at] ^= static_cast<std::byte>(change);
      Bytes out(raw.size(), kPoison);
      if (decoder.decode(packed, out, out.size()).ok()) {
        ++accepted;
        const Maybe reference = libzstd_decoded(packed, raw.size());
        ASSERT_TRUE(reference.has_value()) << "byte " << at << " change " << change;
        ASSERT_EQ(out, *reference) << "byte " << at << " change " << change;
      }
      packed[at] ^= static_cast<std::byte>(change);
    }
  EXPECT_GT(accepted, 0u);  // otherwise nothing was compared
}

}  // namespace
}  // namespace damacy
