// blosclz and snappy blocks: output of packers, mutated bytes compared with decoders written from the formats'
// descriptions, and blosc chunks.
#include <gtest/gtest.h>

#include <random>

#include "damacy/codec/blosclz.h"
#include "damacy/codec/snappy.h"
#include "support/blosc_codecs.h"
#include "support/encoders.h"

namespace damacy {
namespace {

using namespace codec_test;

struct Format {
  const char* name;
  std::vector<std::byte> (*pack)(std::span<const std::byte>);
  DecodeResult (*decode)(detail::ByteSpan, detail::MutableByteSpan) noexcept;
  std::optional<std::vector<std::byte>> (NaiveBytes::*naive)();
  BloscCodec in_blosc;
};
const Format kFormats[] = {{"snappy", snappy_packed, decode_snappy, &NaiveBytes::snappy, BloscCodec::snappy},
                           {"blosclz", blosclz_packed, decode_blosclz, &NaiveBytes::blosclz, BloscCodec::blosclz}};

class BloscCodecs : public testing::TestWithParam<Format> {
 protected:
  DecodeStatus status_of(const Bytes& packed, std::size_t size) {
    Bytes out(size, std::byte{0xa5});
    return GetParam().decode(packed, out).status;
  }
};
INSTANTIATE_TEST_SUITE_P(All, BloscCodecs, testing::ValuesIn(kFormats),
                         [](const auto& of) { return std::string(of.param.name); });

// Runs, repeats from near and far, and noise.
Bytes content(std::mt19937& random, std::size_t size) {
  Bytes raw = noise(size);
  for (std::size_t at = 0; at < size;) {
    const std::size_t length = 1 + random() % 300, back = 1 + random() % 50'000;
    if (random() % 3 != 0 && back <= at)
      for (std::size_t i = at; i < std::min(size, at + length); ++i) raw[i] = raw[i - back];
    else if (random() % 2 == 0)
      std::fill(raw.begin() + static_cast<std::ptrdiff_t>(at),
                raw.begin() + static_cast<std::ptrdiff_t>(std::min(size, at + length)), std::byte{7});
    at += length;
  }
  return raw;
}

TEST_P(BloscCodecs, decode_what_was_packed) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Bytes raw = content(random, 1 + random() % 100'000);
    Bytes out(raw.size(), std::byte{0xa5});
    const DecodeResult result = GetParam().decode(GetParam().pack(raw), out);
    ASSERT_TRUE(result.ok()) << result.detail << " in round " << round;
    ASSERT_EQ(out, raw);
  }
}

TEST_P(BloscCodecs, accept_and_give_of_mutated_bytes_what_the_format_says) {
  std::mt19937 random(4);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Bytes raw = content(random, 1 + random() % 300);
    Bytes packed = GetParam().pack(raw);
    for (std::size_t changes = random() % 4; changes != 0; --changes)
      packed[random() % packed.size()] = static_cast<std::byte>(random());
    if (random() % 8 == 0) packed.resize(random() % (packed.size() + 1));
    const Bytes exact(packed.begin(), packed.end());  // so that a sanitizer sees a read past the end
    Bytes out(raw.size(), std::byte{0xa5});
    const bool ok = GetParam().decode(exact, out).ok();
    const auto defined = (NaiveBytes(exact, raw.size()).*GetParam().naive)();
    ASSERT_EQ(ok, defined.has_value()) << "round " << round;
    if (ok) {
      ASSERT_EQ(out, *defined) << "round " << round;
    }
    accepted += ok ? 1 : 0;
  }
  EXPECT_GT(accepted, 4000);
  EXPECT_LT(accepted, 18'000);
}

TEST_P(BloscCodecs, refuse_another_size_by_one) {
  const Bytes packed = GetParam().pack(Bytes(100, std::byte{1}));
  EXPECT_EQ(status_of(packed, 100), DecodeStatus::ok);
  EXPECT_EQ(status_of(packed, 99), DecodeStatus::size);
  EXPECT_EQ(status_of(packed, 101), DecodeStatus::size);
}

TEST_P(BloscCodecs, are_read_inside_blosc_chunks) {
  std::mt19937 random(5);
  for (const std::uint32_t typesize : {1u, 2u, 4u}) {
    BloscWriter writer{.typesize = typesize, .codec = GetParam().in_blosc, .filter_flags = 1};
    Bytes raw = content(random, 40'000);
    const Bytes chunk = blosc_packed(raw, writer, GetParam().pack);
    const ByteRange everything{0, chunk.size()}, all{0, raw.size()};
    ZstdDecoder zstd;
    InflateDecoder inflate;
    BloscDecoder blosc;
    Bytes out(raw.size(), std::byte{0xa5});
    const DecodeResult result = blosc.decode(chunk, {&everything, 1}, out, {&all, 1}, zstd, inflate);
    ASSERT_TRUE(result.ok()) << result.detail;
    EXPECT_EQ(out, raw);
  }
}

TEST(Snappy, decodes_a_golden_block_with_every_kind_of_element) {
  // 22 bytes: 4 literals; copies of 5 from 4 back, 3 from 2, 10 from 1.
  const Bytes block =
      bytes_of({22, 3 << 2, 'a', 'b', 'c', 'd', 1 << 2 | 1, 4, 2 << 2 | 2, 2, 0, 9 << 2 | 3, 1, 0, 0, 0});
  Bytes out(22);
  ASSERT_TRUE(decode_snappy(block, out).ok());
  EXPECT_EQ(out, joined({text_bytes("abcd"), text_bytes("abcda"), text_bytes("dad"), Bytes(10, std::byte{'d'})}));
}

TEST(BloscLz, decodes_a_golden_block) {
  // 3 literals; 9 from 3 back; 1 literal.
  const Bytes block = bytes_of({2, 'a', 'b', 'c', 7 << 5, 0, 2, 0, 'z'});
  Bytes out(13);
  ASSERT_TRUE(decode_blosclz(block, out).ok());
  EXPECT_EQ(out, text_bytes("abcabcabcabcz"));
}

}  // namespace
}  // namespace damacy
