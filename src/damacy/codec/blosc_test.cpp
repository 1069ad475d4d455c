// The blosc1 container: every combination of header fields, what is refused, and mutated frames against a decoder
// written from the format alone.
#include "damacy/codec/blosc.h"

#include <gtest/gtest.h>

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

Decoded decode(const Bytes& encoded, std::size_t size) {
  ZstdDecoder zstd;
  InflateDecoder inflate;
  BloscDecoder decoder;
  Decoded decoded{{}, Bytes(size, kPoison)};
  const ByteRange everything{0, encoded.size()};
  const ByteRange all{0, size};
  decoded.result = decoder.decode(encoded, {&everything, 1}, decoded.out, {&all, 1}, zstd, inflate);
  return decoded;
}

DecodeStatus status_of(const Bytes& encoded, std::size_t size) {
  return decode(encoded, size).result.status;
}

void expect_decodes(const Bytes& encoded, const Bytes& raw) {
  const Decoded decoded = decode(encoded, raw.size());
  ASSERT_TRUE(decoded.result.ok()) << decoded.result.detail << " " << decoded.result.seen << " "
                                   << decoded.result.expected;
  ASSERT_EQ(decoded.out, raw);
}

Bytes changed(Bytes bytes, std::size_t at, std::uint64_t value, unsigned count = 1) {
  for (unsigned i = 0; i < count; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

TEST(Blosc, decodes_every_combination_of_codec_filter_split_and_typesize) {
  for (const BloscCodec codec : {BloscCodec::lz4, BloscCodec::zlib, BloscCodec::zstd})
    for (const unsigned filter : {0u, 1u, 4u, 5u})
      for (const bool split : {false, true})
        for (const unsigned typesize : {1u, 2u, 3u, 4u, 7u, 8u, 16u, 17u, 255u}) {
          const std::uint32_t blocksize = 8 * 128 * typesize;
          BloscWriter writer{
              .typesize = typesize, .blocksize = blocksize, .codec = codec, .filter_flags = filter, .split = split};
          for (const std::size_t size : {2 * blocksize, 2 * blocksize + 1, 2 * blocksize + 8 * typesize + 3}) {
            SCOPED_TRACE(testing::Message() << static_cast<int>(codec) << " filter " << filter << " split " << split
                                            << " typesize " << typesize << " size " << size);
            expect_decodes(blosc_packed(image(size), writer), image(size));
          }
        }
}

TEST(Blosc, decodes_raw_and_packed_streams_of_one_block) {
  Bytes raw = image(4096);
  for (std::size_t i = 0; i < raw.size(); i += 2) raw[i] = noise(1, static_cast<unsigned>(i))[0];  // low bytes: noise
  for (const unsigned filter : {0u, 1u, 4u})
    expect_decodes(blosc_packed(raw, {.typesize = 2, .blocksize = 1024, .filter_flags = filter}), raw);
  expect_decodes(blosc_packed(raw, {.typesize = 2, .blocksize = 1024, .filter_flags = 1, .all_raw = true}), raw);
  expect_decodes(blosc_packed(raw, {.typesize = 2, .blocksize = 1024, .filter_flags = 4, .all_raw = true}), raw);
}

TEST(Blosc, splits_only_blocks_with_128_elements_and_up_to_16_bytes_each) {
  BloscHeader header{
      .nbytes = 10'000, .cbytes = 0, .blocksize = 2048, .block_count = 5, .typesize = 16, .splittable = true};
  EXPECT_EQ(header.splits(0), 16u);
  EXPECT_EQ(header.splits(4), 1u);  // the short last one
  header.typesize = 17;
  EXPECT_EQ(header.splits(0), 1u);
  header.typesize = 16;
  header.blocksize = 2047;
  EXPECT_EQ(header.splits(0), 1u);
  header.blocksize = 2048;
  header.splittable = false;
  EXPECT_EQ(header.splits(0), 1u);
}

TEST(Blosc, a_last_block_of_full_size_is_split_too) {
  const BloscHeader header{
      .nbytes = 4096, .cbytes = 0, .blocksize = 2048, .block_count = 2, .typesize = 2, .splittable = true};
  EXPECT_EQ(header.splits(1), 2u);
}

TEST(Blosc, a_block_that_does_not_divide_into_its_streams_is_refused) {
  Bytes frame = blosc_packed(image(2 * 1025), {.typesize = 2, .blocksize = 1025, .split = false});
  EXPECT_EQ(status_of(frame, 2050), DecodeStatus::ok);
  frame[2] &= ~std::byte{0x10};  // now it claims to be split
  EXPECT_EQ(status_of(frame, 2050), DecodeStatus::frame);
}

TEST(Blosc, block_starts_may_be_out_of_order_repeat_and_leave_gaps) {
  const Bytes raw = image(5 * 1024 + 100);
  expect_decodes(blosc_packed(raw, {.typesize = 2, .filter_flags = 1, .write_order = {4, 2, 5, 0, 3, 1}}), raw);
  expect_decodes(blosc_packed(raw, {.typesize = 2, .filter_flags = 1, .gap = 13}), raw);
  const Bytes same = joined({image(1024), noise(1024), image(1024), image(1024)});
  const Bytes shared = blosc_packed(same, {.share_equal_blocks = true});
  EXPECT_LT(shared.size(), blosc_packed(same, {}).size());
  expect_decodes(shared, same);
}

TEST(Blosc, memcpyed_data_stands_behind_the_header_and_ignores_the_filter) {
  for (const unsigned flags : {0x02u, 0x93u, 0x96u, 0x33u, 0x12u})
    for (const std::size_t size : {0, 1, 7, 127, 128, 5000}) {
      if (size == 0) continue;
      expect_decodes(blosc_memcpyed(noise(size), flags, 2), noise(size));
    }
  EXPECT_EQ(status_of(changed(blosc_memcpyed(noise(100), 0x33, 1), 12, 115, 4), 100), DecodeStatus::frame);
  Bytes longer = blosc_memcpyed(noise(100), 0x33, 1);
  longer.push_back(std::byte{0});
  EXPECT_EQ(status_of(changed(longer, 12, 117, 4), 100), DecodeStatus::frame);
}

TEST(Blosc, no_bytes_are_sixteen_bytes_and_right_for_no_bytes_only) {
  for (const unsigned flags : {0x21u, 0x33u, 0x02u}) {
    EXPECT_EQ(status_of(blosc_header(flags, 1, 0, 1, 16), 0), DecodeStatus::ok);
    EXPECT_EQ(status_of(blosc_header(flags, 1, 0, 1, 16), 1), DecodeStatus::size);
    EXPECT_EQ(status_of(blosc_header(flags, 1, 0, 2, 16), 0), DecodeStatus::frame);
    EXPECT_EQ(status_of(joined({blosc_header(flags, 1, 0, 1, 17), Bytes(1)}), 0), DecodeStatus::frame);
  }
}

TEST(Blosc, unknown_codec_numbers_are_refused) {
  const Bytes frame = blosc_packed(image(2000), {});
  const unsigned flags = static_cast<unsigned>(frame[2]) & 0x1f;
  for (const unsigned codec : {5u, 6u, 7u})
    EXPECT_EQ(status_of(changed(frame, 2, flags | codec << 5), 2000), DecodeStatus::frame);
}

TEST(Blosc, wrong_header_fields_are_refused) {
  const Bytes frame = blosc_packed(image(2000), {.typesize = 2, .filter_flags = 1});
  ASSERT_EQ(status_of(frame, 2000), DecodeStatus::ok);
  EXPECT_EQ(status_of(changed(frame, 0, 1), 2000), DecodeStatus::frame);
  EXPECT_EQ(status_of(changed(frame, 0, 3), 2000), DecodeStatus::frame);
  EXPECT_EQ(status_of(changed(frame, 1, 2), 2000), DecodeStatus::frame);
  EXPECT_EQ(status_of(changed(frame, 2, static_cast<unsigned>(frame[2]) | 8), 2000), DecodeStatus::frame);
  EXPECT_EQ(status_of(changed(frame, 3, 0), 2000), DecodeStatus::frame);
  EXPECT_EQ(status_of(frame, 1999), DecodeStatus::size);
  EXPECT_EQ(status_of(frame, 2001), DecodeStatus::size);
  EXPECT_EQ(status_of(changed(frame, 8, 0, 4), 2000), DecodeStatus::frame);
  EXPECT_EQ(status_of(changed(frame, 8, 2001, 4), 2000), DecodeStatus::frame);
  EXPECT_EQ(status_of(changed(frame, 12, frame.size() - 1, 4), 2000), DecodeStatus::frame);
  EXPECT_EQ(status_of(changed(frame, 12, frame.size() + 1, 4), 2000), DecodeStatus::frame);
}

TEST(Blosc, blocks_may_be_as_small_as_a_byte) {
  for (const std::uint32_t blocksize : {1u, 2u, 3u, 16u, 63u})
    for (const unsigned filter : {0u, 1u, 4u})
      expect_decodes(blosc_packed(image(640), {.typesize = 2, .blocksize = blocksize, .filter_flags = filter}),
                     image(640));
}

TEST(Blosc, more_blocks_than_16_byte_ones_and_4096_are_over_the_limit) {
  EXPECT_EQ(status_of(blosc_packed(image(4369), {.blocksize = 1}), 4369), DecodeStatus::ok);
  EXPECT_EQ(status_of(blosc_packed(image(4370), {.blocksize = 1}), 4370), DecodeStatus::limit);
}

TEST(Blosc, a_start_outside_the_blocks_is_refused) {
  const Bytes frame = blosc_packed(image(2000), {});
  const std::uint64_t size = frame.size();
  for (const std::uint64_t start :
       {std::uint64_t{0}, std::uint64_t{23}, size - 3, size, std::uint64_t{0x7fffffff}, std::uint64_t{0xffffffff}})
    EXPECT_EQ(status_of(changed(frame, 20, start, 4), 2000), DecodeStatus::frame) << start;
}

TEST(Blosc, a_stream_length_must_be_positive_inside_the_block_and_inside_the_frame) {
  const Bytes frame = blosc_packed(image(1024), {.all_raw = true});
  ASSERT_EQ(status_of(frame, 1024), DecodeStatus::ok);
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1025}, std::uint64_t{0xffffffff}})
    EXPECT_EQ(status_of(changed(frame, 20, length, 4), 1024), DecodeStatus::frame) << length;
  const Bytes moved = changed(frame, 16, 21, 4);  // the stream would end behind the frame
  EXPECT_EQ(status_of(changed(moved, 21, 1024, 4), 1024), DecodeStatus::frame);
}

TEST(Blosc, a_checksum_in_a_zstd_stream_is_verified) {
  const Bytes raw = image(1000);
  Bytes stream = zstd_packed(raw, 3, /*checksum=*/true);
  const auto frame_of = [&] {
    Bytes body;
    append_le(body, 20, 4);
    append_le(body, stream.size(), 4);
    append(body, stream);
    return joined({blosc_header(0x90, 1, 1000, 1000, 16 + body.size()), body});
  };
  expect_decodes(frame_of(), raw);
  stream.back() ^= std::byte{1};
  EXPECT_EQ(status_of(frame_of(), 1000), DecodeStatus::checksum);
}

TEST(Blosc, every_truncation_is_an_error_with_cbytes_left_or_repaired) {
  const Bytes frame = blosc_packed(image(700), {.typesize = 2, .blocksize = 256, .filter_flags = 1});
  for (std::size_t size = 0; size < frame.size(); ++size) {
    Bytes cut{frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size)};
    EXPECT_NE(status_of(cut, 700), DecodeStatus::ok);
    if (size < 16) continue;
    EXPECT_NE(status_of(changed(cut, 12, size, 4), 700), DecodeStatus::ok) << size;
  }
}

TEST(Blosc, every_changed_byte_gives_an_error_or_what_the_format_says) {
  std::size_t accepted = 0;
  for (const BloscWriter& writer :
       {BloscWriter{.typesize = 2, .blocksize = 256, .filter_flags = 1}, BloscWriter{.typesize = 4, .blocksize = 512},
        BloscWriter{.typesize = 2, .blocksize = 256, .codec = BloscCodec::zstd, .filter_flags = 4}}) {
    Bytes frame = blosc_packed(image(700), writer);
    for (std::size_t at = 0; at < frame.size(); ++at)
      for (const unsigned change : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 255u}) {
        frame[at] ^= static_cast<std::byte>(change);
        const Decoded decoded = decode(frame, 700);
        if (decoded.result.ok()) {
          ++accepted;
          ASSERT_EQ(NaiveBlosc(frame, 700, nullptr).decoded(), Maybe(decoded.out)) << "byte " << at << " ^ " << change;
        }
        frame[at] ^= static_cast<std::byte>(change);
      }
  }
  EXPECT_GT(accepted, 0u);
}

}  // namespace
}  // namespace damacy
