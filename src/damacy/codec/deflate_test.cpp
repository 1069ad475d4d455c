// gzip and zlib wrappers built byte by byte around stored, fixed and dynamic deflate blocks.
#include "damacy/codec/deflate.h"

#include <gtest/gtest.h>
#include <isa-l/crc.h>

#include "support/encoders.h"

namespace damacy {
namespace {

using namespace codec_test;

DecodeStatus gzip_status(const Bytes& encoded, std::size_t size) {
  InflateDecoder decoder;
  Bytes out(size, std::byte{0xa5});
  return decoder.decode_gzip(encoded, out).status;
}

DecodeStatus zlib_status(const Bytes& encoded, std::size_t size) {
  InflateDecoder decoder;
  Bytes out(size, std::byte{0xa5});
  return decoder.decode_zlib(encoded, out).status;
}

void expect_gzip(const Bytes& encoded, const Bytes& raw) {
  InflateDecoder decoder;
  Bytes out(raw.size(), std::byte{0xa5});
  const DecodeResult result = decoder.decode_gzip(encoded, out);
  EXPECT_TRUE(result.ok()) << result.detail;
  EXPECT_EQ(out, raw);
}

void expect_zlib(const Bytes& encoded, const Bytes& raw) {
  InflateDecoder decoder;
  Bytes out(raw.size(), std::byte{0xa5});
  const DecodeResult result = decoder.decode_zlib(encoded, out);
  EXPECT_TRUE(result.ok()) << result.detail;
  EXPECT_EQ(out, raw);
}

std::uint32_t crc32_of(const Bytes& bytes) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

// One stored block.
Bytes stored(const Bytes& raw) {
  Bytes bytes = bytes_of({1});
  append_le(bytes, raw.size(), 2);
  append_le(bytes, ~raw.size(), 2);
  append(bytes, raw);
  return bytes;
}

Bytes gzip_trailer(const Bytes& raw) {
  Bytes bytes;
  append_le(bytes, crc32_of(raw), 4);
  append_le(bytes, raw.size(), 4);
  return bytes;
}

Bytes gzip_member(const Bytes& raw, int flags, const Bytes& optional_fields) {
  return joined(
      {bytes_of({0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255}), optional_fields, stored(raw), gzip_trailer(raw)});
}

const Bytes kAbc = text_bytes("abc");

TEST(Gzip, decodes_what_the_reference_library_packs) {
  for (const std::size_t size : {1, 100, 70'000, 300'000}) {
    expect_gzip(deflated(image(size), IGZIP_GZIP), image(size));
    expect_gzip(deflated(noise(size), IGZIP_GZIP), noise(size));
  }
}

TEST(Gzip, decodes_no_bytes) {
  expect_gzip(gzip_member({}, 0, {}), {});
}

TEST(Gzip, honours_all_optional_header_fields) {
  expect_gzip(gzip_member(kAbc, 0x04, bytes_of({3, 0, 1, 2, 3})), kAbc);
  expect_gzip(gzip_member(kAbc, 0x08, bytes_of({'n', 0})), kAbc);
  expect_gzip(gzip_member(kAbc, 0x10, bytes_of({0})), kAbc);
  expect_gzip(gzip_member(kAbc, 0x01, {}), kAbc);  // "probably text" adds no field
  expect_gzip(gzip_member(kAbc, 0x1c, bytes_of({1, 0, 9, 'n', 0, 'c', 0})), kAbc);
}

TEST(Gzip, verifies_the_header_checksum) {
  const Bytes fields = bytes_of({'n', 0});
  const Bytes header = joined({bytes_of({0x1f, 0x8b, 8, 0x0a, 0, 0, 0, 0, 0, 255}), fields});
  Bytes crc;
  append_le(crc, crc32_of(header) & 0xffff, 2);
  expect_gzip(gzip_member(kAbc, 0x0a, joined({fields, crc})), kAbc);
  crc[0] ^= std::byte{1};
  EXPECT_EQ(gzip_status(gzip_member(kAbc, 0x0a, joined({fields, crc})), 3), DecodeStatus::checksum);
}

TEST(Gzip, refuses_reserved_flags_other_methods_and_other_magic_numbers) {
  for (const int flag : {0x20, 0x40, 0x80}) EXPECT_EQ(gzip_status(gzip_member(kAbc, flag, {}), 3), DecodeStatus::frame);
  for (const std::size_t at : {0, 1, 2}) {
    Bytes member = gzip_member(kAbc, 0, {});
    member[at] ^= std::byte{1};
    EXPECT_EQ(gzip_status(member, 3), DecodeStatus::frame);
  }
}

TEST(Gzip, joins_members_and_allows_zero_bytes_behind_the_last) {
  const Bytes two = joined({gzip_member(kAbc, 0, {}), gzip_member({}, 0, {}), deflated(image(1000), IGZIP_GZIP)});
  expect_gzip(two, joined({kAbc, image(1000)}));
  expect_gzip(joined({two, Bytes(513)}), joined({kAbc, image(1000)}));
  EXPECT_EQ(gzip_status(joined({two, bytes_of({0, 0, 1})}), 1003), DecodeStatus::frame);
  EXPECT_EQ(gzip_status(joined({two, bytes_of({1})}), 1003), DecodeStatus::frame);
}

TEST(Gzip, zero_bytes_between_members_are_refused) {
  const Bytes member = gzip_member(kAbc, 0, {});
  EXPECT_EQ(gzip_status(joined({member, bytes_of({0}), member}), 6), DecodeStatus::frame);
}

TEST(Gzip, verifies_checksum_and_length_of_each_member) {
  for (const std::size_t from_end : {1, 5}) {
    Bytes first = gzip_member(kAbc, 0, {});
    first[first.size() - from_end] ^= std::byte{1};
    EXPECT_EQ(gzip_status(first, 3), DecodeStatus::checksum);
    EXPECT_EQ(gzip_status(joined({first, gzip_member(kAbc, 0, {})}), 6), DecodeStatus::checksum);
  }
}

TEST(Gzip, gives_the_expected_size_or_an_error) {
  const Bytes packed = deflated(image(1000), IGZIP_GZIP);
  EXPECT_EQ(gzip_status(packed, 999), DecodeStatus::size);
  EXPECT_EQ(gzip_status(packed, 1001), DecodeStatus::size);
  EXPECT_EQ(gzip_status({}, 0), DecodeStatus::frame);
}

TEST(Gzip, decodes_an_unknown_size_up_to_a_bound) {
  InflateDecoder decoder;
  const Bytes raw = image(1000);
  const Bytes packed = deflated(raw, IGZIP_GZIP);
  Bytes out(1500);
  std::uint64_t produced = 0;
  ASSERT_TRUE(decoder.decode_gzip(packed, out, &produced).ok());
  EXPECT_EQ(produced, 1000u);
  EXPECT_TRUE(std::equal(raw.begin(), raw.end(), out.begin()));
  EXPECT_EQ(decoder.decode_gzip(packed, std::span(out).first(999), &produced).status, DecodeStatus::size);
}

TEST(Gzip, every_truncation_is_an_error_and_a_changed_byte_never_gives_other_bytes) {
  const Bytes raw = image(200);
  Bytes packed = deflated(raw, IGZIP_GZIP);
  for (std::size_t size = 0; size < packed.size(); ++size)
    EXPECT_NE(gzip_status({packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)}, 200), DecodeStatus::ok);
  InflateDecoder decoder;
  for (std::size_t at = 0; at < packed.size(); ++at)
    for (unsigned change = 1; change < 256; ++change) {
      packed[at] ^= static_cast<std::byte>(change);
      Bytes out(200, std::byte{0xa5});
      const bool accepted = decoder.decode_gzip(packed, out).ok();
      ASSERT_TRUE(!accepted || out == raw) << "byte " << at << " change " << change;
      packed[at] ^= static_cast<std::byte>(change);
    }
}

TEST(Gzip, a_distance_before_the_members_first_byte_is_refused) {
  // Fixed block: literal 'a', match of 3 at distance 2, end of block; 'a' is all there is. In front of it another
  // member.
  const Bytes bad = joined({bytes_of({0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}), bytes_of({0x4b, 0x04, 0x42, 0x00}),
                            gzip_trailer(text_bytes("a"))});
  EXPECT_EQ(gzip_status(joined({gzip_member(kAbc, 0, {}), bad}), 7), DecodeStatus::frame);
}

TEST(Zlib, decodes_golden_streams) {
  // "a" six times, fixed codes with an overlapping match; and a stored block.
  expect_zlib(bytes_of({0x78, 0x9c, 0x4b, 0x4c, 0x04, 0x01, 0x00, 0x07, 0xfb, 0x02, 0x47}), text_bytes("aaaaaa"));
  expect_zlib(joined({bytes_of({0x78, 0x01}), stored(kAbc), bytes_of({0x02, 0x4d, 0x01, 0x27})}), kAbc);
  expect_zlib(bytes_of({0x78, 0x9c, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01}), {});
}

TEST(Zlib, decodes_what_the_reference_library_packs) {
  for (const std::size_t size : {1, 100, 70'000, 300'000}) expect_zlib(deflated(image(size), IGZIP_ZLIB), image(size));
}

TEST(Zlib, a_checksum_over_many_bytes_of_255_is_reduced) {
  const Bytes raw(200'000, std::byte{0xff});
  expect_zlib(deflated(raw, IGZIP_ZLIB), raw);
}

TEST(Zlib, refuses_a_preset_dictionary) {
  EXPECT_EQ(zlib_status(bytes_of({0x78, 0xbb, 0, 0, 0, 1, 0x03, 0, 0, 0, 0, 1}), 0), DecodeStatus::dictionary);
}

TEST(Zlib, refuses_wrong_headers_and_anything_behind_the_stream) {
  const Bytes good = deflated(image(100), IGZIP_ZLIB);
  EXPECT_EQ(zlib_status(good, 100), DecodeStatus::ok);
  EXPECT_EQ(zlib_status(joined({good, bytes_of({0})}), 100), DecodeStatus::frame);
  for (const Bytes& header : {bytes_of({0x79, 0x9c}), bytes_of({0x78, 0x9d}), bytes_of({0x88, 0x1c})}) {
    Bytes bad = good;
    std::ranges::copy(header, bad.begin());
    EXPECT_EQ(zlib_status(bad, 100), DecodeStatus::frame);
  }
}

TEST(Zlib, verifies_the_checksum_and_the_size) {
  Bytes packed = deflated(image(100), IGZIP_ZLIB);
  EXPECT_EQ(zlib_status(packed, 99), DecodeStatus::size);
  EXPECT_EQ(zlib_status(packed, 101), DecodeStatus::size);
  packed.back() ^= std::byte{1};
  EXPECT_EQ(zlib_status(packed, 100), DecodeStatus::checksum);
}

TEST(Zlib, every_truncation_is_an_error) {
  const Bytes packed = deflated(image(100), IGZIP_ZLIB);
  for (std::size_t size = 0; size < packed.size(); ++size)
    EXPECT_NE(zlib_status({packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)}, 100), DecodeStatus::ok);
}

}  // namespace
}  // namespace damacy
