// bzip2 streams by libbz2: sizes, several streams, damage, and what is said of it.
#include "damacy/codec/bzip2.h"

#include <gtest/gtest.h>

#include <string_view>

#include "support/encoders.h"
#include "support/slow_encoders.h"

namespace damacy {
namespace {

using namespace codec_test;

DecodeResult decode(const Bytes& encoded, Bytes& out) {
  Bzip2Decoder decoder;
  return decoder.decode(encoded, out);
}

TEST(Bzip2, gives_what_was_packed_at_every_level) {
  Bzip2Decoder decoder;
  for (const int level : {1, 5, 9, 1})
    for (const std::size_t size : {0u, 1u, 4000u, 250'000u}) {
      const Bytes raw = image(size);
      Bytes out(size, std::byte{0xaa});
      const DecodeResult result = decoder.decode(bzip2_packed(raw, level), out);
      ASSERT_TRUE(result.ok()) << result.detail << " level " << level << " size " << size;
      EXPECT_EQ(out, raw);
    }
}

TEST(Bzip2, joins_streams) {
  const Bytes a = image(5000), b = noise(300, 2);
  Bytes out(a.size() + b.size());
  const auto packed = joined({bzip2_packed(a, 9), bzip2_packed({}), bzip2_packed(b, 1)});
  ASSERT_TRUE(decode(packed, out).ok());
  EXPECT_EQ(out, joined({a, b}));
}

TEST(Bzip2, ends_soon_for_many_empty_streams) {
  Bytes packed;
  for (int i = 0; i < 20'000; ++i) {
    const Bytes one = bzip2_packed({}, 1 + i % 9);
    packed.insert(packed.end(), one.begin(), one.end());
  }
  Bytes out;
  EXPECT_TRUE(decode(packed, out).ok());
}

TEST(Bzip2, says_how_many_bytes_there_are) {
  const Bytes raw = image(3000);
  Bytes out(10'000);
  std::uint64_t produced = 0;
  Bzip2Decoder decoder;
  ASSERT_TRUE(decoder.decode(bzip2_packed(raw), out, &produced).ok());
  EXPECT_EQ(produced, raw.size());
}

TEST(Bzip2, refuses_another_size) {
  const Bytes packed = bzip2_packed(image(3000));
  Bytes more(3001), less(2999), none;
  DecodeResult result = decode(packed, more);
  EXPECT_EQ(result.status, DecodeStatus::size);
  EXPECT_EQ(result.seen, 3000u);
  EXPECT_EQ(result.expected, 3001u);
  result = decode(packed, less);
  EXPECT_EQ(result.status, DecodeStatus::size);
  EXPECT_EQ(result.seen, 3000u);
  EXPECT_EQ(decode(packed, none).status, DecodeStatus::size);
}

TEST(Bzip2, stops_a_bomb_at_the_size_of_the_chunk) {
  const Bytes packed = bzip2_packed(Bytes(40'000'000), 9);
  Bytes out(1000);
  EXPECT_LT(packed.size(), 2000u);
  EXPECT_EQ(decode(packed, out).status, DecodeStatus::size);
}

TEST(Bzip2, refuses_data_that_end_anywhere_before_their_end) {
  const Bytes raw = image(900);
  const Bytes packed = bzip2_packed(raw);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    Bytes out(raw.size());
    const DecodeResult result = decode(Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)), out);
    ASSERT_EQ(result.status, DecodeStatus::frame) << size;
    EXPECT_EQ(std::string_view(result.detail).substr(0, 19), "bz2: data end early") << size;
  }
}

TEST(Bzip2, notices_every_changed_byte) {
  const Bytes raw = image(900);
  const Bytes packed = bzip2_packed(raw);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    Bytes damaged = packed;
    damaged[i] ^= std::byte{0x10};
    Bytes out(raw.size());
    const DecodeResult result = decode(damaged, out);
    ASSERT_TRUE(!result.ok() || out == raw) << i;  // the last byte has bits that pad it
  }
}

TEST(Bzip2, refuses_bytes_behind_the_last_stream) {
  const Bytes raw = image(900);
  Bytes out(raw.size());
  const DecodeResult result = decode(joined({bzip2_packed(raw), noise(20)}), out);
  EXPECT_EQ(result.status, DecodeStatus::frame);
  EXPECT_STREQ(result.detail, "bz2: no bzip2 stream, after decoded bytes");
  EXPECT_EQ(result.seen, raw.size());
}

}  // namespace
}  // namespace damacy
