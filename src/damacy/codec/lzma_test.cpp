// LZMA data by liblzma in its three containers: sizes, damage, memory that data ask for, and what is said of it.
#include "damacy/codec/lzma.h"

#include <gtest/gtest.h>

#include <string_view>

#include "damacy/core/limits.h"
#include "support/encoders.h"
#include "support/slow_encoders.h"

namespace damacy {
namespace {

using namespace codec_test;
using Container = LzmaFormat::Container;

const LzmaFormat kXz{.container = Container::xz, .filters = {}};
const LzmaFormat kAlone{.container = Container::alone, .filters = {}};
const LzmaFormat kRaw1{.container = Container::raw, .filters = two_filters(LzmaFilter::kLzma1, 1 << 16)};
const LzmaFormat kRaw2{.container = Container::raw, .filters = two_filters(LzmaFilter::kLzma2, 1 << 16)};
const LzmaFormat kFormats[] = {kXz, kAlone, kRaw1, kRaw2};

DecodeResult decode(const LzmaFormat& format, const Bytes& encoded, Bytes& out) {
  LzmaDecoder decoder;
  return decoder.decode(format, encoded, out);
}

TEST(Lzma, gives_what_was_packed_in_every_container) {
  LzmaDecoder decoder;
  for (const std::size_t size : {0u, 1u, 4000u, 250'000u})
    for (const LzmaFormat& format : kFormats) {
      const Bytes raw = image(size);
      Bytes out(size, std::byte{0xaa});
      const DecodeResult result = decoder.decode(format, lzma_packed(format, raw), out);
      ASSERT_TRUE(result.ok()) << result.detail << " container " << int(format.container) << " size " << size;
      EXPECT_EQ(out, raw);
    }
}

TEST(Lzma, says_how_many_bytes_there_are) {
  const Bytes raw = image(3000);
  for (const LzmaFormat& format : kFormats) {
    LzmaDecoder decoder;
    Bytes out(10'000);
    std::uint64_t produced = 0;
    ASSERT_TRUE(decoder.decode(format, lzma_packed(format, raw), out, &produced).ok());
    EXPECT_EQ(produced, raw.size());
  }
}

TEST(Lzma, refuses_another_size) {
  for (const LzmaFormat& format : kFormats) {
    const Bytes packed = lzma_packed(format, image(3000));
    Bytes more(3001), less(2999), none;
    DecodeResult result = decode(format, packed, more);
    EXPECT_EQ(result.status, DecodeStatus::size);
    EXPECT_EQ(result.seen, 3000u);
    EXPECT_EQ(decode(format, packed, less).status, DecodeStatus::size);
    EXPECT_EQ(decode(format, packed, none).status, DecodeStatus::size);
  }
}

TEST(Lzma, refuses_data_that_end_anywhere_before_their_end) {
  const Bytes raw = image(900);
  for (const LzmaFormat& format : kFormats) {
    const Bytes packed = lzma_packed(format, raw);
    for (std::size_t size = 0; size < packed.size(); ++size) {
      Bytes out(raw.size());
      const DecodeResult result =
          decode(format, Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)), out);
      ASSERT_EQ(result.status, DecodeStatus::frame) << size << " container " << int(format.container);
    }
  }
}

TEST(Lzma, notices_every_changed_byte_of_xz) {
  const Bytes raw = image(900);
  const Bytes packed = lzma_packed(kXz, raw);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    Bytes damaged = packed;
    damaged[i] ^= std::byte{0x10};
    Bytes out(raw.size());
    ASSERT_FALSE(decode(kXz, damaged, out).ok()) << i;
  }
}

TEST(Lzma, refuses_another_container_and_bytes_behind) {
  const Bytes raw = image(900);
  Bytes out(raw.size());
  DecodeResult result = decode(kXz, lzma_packed(kAlone, raw), out);
  EXPECT_EQ(result.status, DecodeStatus::frame);
  EXPECT_STREQ(result.detail, "lzma: not of the container that metadata say");
  for (const LzmaFormat& format : kFormats) {
    result = decode(format, joined({lzma_packed(format, raw), noise(20)}), out);
    EXPECT_EQ(result.status, DecodeStatus::frame) << int(format.container);
  }
}

TEST(Lzma, refuses_to_take_more_memory_than_the_limit) {
  constexpr std::uint32_t kHuge = 1u << 30;
  const Bytes raw = image(900);
  Bytes out(raw.size());
  const LzmaFormat raw2{.container = Container::raw, .filters = two_filters(LzmaFilter::kLzma2, kHuge)};
  Bytes alone = lzma_packed(kAlone, raw);
  alone[4] = std::byte{0x40};  // the header's dictionary: 1 GiB
  // No encoder is asked for 1 GiB: the block header's size of the dictionary is changed, and its checksum.
  Bytes xz = lzma_packed(kXz, raw);
  constexpr std::size_t kBlock = 12, kSize = 16, kCrc = 20;
  ASSERT_EQ(xz[kBlock], std::byte{2});  // a block header of 12 bytes
  xz[kSize] = std::byte{36};
  const auto* header = reinterpret_cast<const std::uint8_t*>(xz.data()) + kBlock;
  const std::uint32_t crc = lzma_crc32(header, kCrc - kBlock, 0);
  for (unsigned i = 0; i < 4; ++i) xz[kCrc + i] = static_cast<std::byte>(crc >> (8 * i));
  const std::pair<LzmaFormat, Bytes> cases[] = {{raw2, Bytes(10)}, {kAlone, alone}, {kXz, xz}};
  for (const auto& [format, encoded] : cases) {
    const DecodeResult result = decode(format, encoded, out);
    EXPECT_EQ(result.status, DecodeStatus::limit) << int(format.container);
    EXPECT_GE(result.seen, kHuge);
    EXPECT_EQ(result.expected, Limits::lzma_memory(raw.size()));
  }
}

TEST(Lzma, takes_the_dictionary_of_every_preset) {
  for (std::uint32_t preset = 0; preset <= 9; ++preset)
    for (const std::uint32_t flag : {0u, std::uint32_t{LZMA_PRESET_EXTREME}}) {
      const auto dictionary = lzma_dictionary(preset | flag);
      ASSERT_TRUE(dictionary);
      const auto memory = lzma_raw_memory({{.id = LzmaFilter::kLzma2, .dictionary = *dictionary}});
      ASSERT_TRUE(memory);
      EXPECT_LE(*memory, Limits::lzma_memory(1));
    }
  EXPECT_FALSE(lzma_dictionary(10));
}

TEST(Lzma, has_no_chain_that_does_not_end_with_lzma) {
  EXPECT_FALSE(lzma_raw_memory({}));
  EXPECT_FALSE(lzma_raw_memory({{.id = LzmaFilter::kDelta}}));
  EXPECT_FALSE(lzma_raw_memory({{.id = LzmaFilter::kLzma2, .dictionary = 4096}, {.id = LzmaFilter::kDelta}}));
  EXPECT_FALSE(lzma_raw_memory({{.id = LzmaFilter::kLzma1, .dictionary = 4096, .literal_context = 5}}));
  EXPECT_FALSE(lzma_raw_memory(std::vector<LzmaFilter>(5)));
  EXPECT_TRUE(lzma_raw_memory({{.id = LzmaFilter::kFirstBranch}, {.id = LzmaFilter::kLzma2, .dictionary = 4096}}));
}

TEST(Lzma, finds_the_checksum_of_one_xz_stream) {
  const Bytes raw = image(900);
  for (const lzma_check check : {LZMA_CHECK_CRC32, LZMA_CHECK_CRC64, LZMA_CHECK_SHA256})
    EXPECT_TRUE(xz_has_checksum(lzma_packed(kXz, raw, check)));
  const Bytes guarded = lzma_packed(kXz, raw), open = lzma_packed(kXz, raw, LZMA_CHECK_NONE);
  EXPECT_FALSE(xz_has_checksum(open));
  EXPECT_FALSE(xz_has_checksum(joined({open, guarded})));
  EXPECT_FALSE(xz_has_checksum({}));
  EXPECT_FALSE(xz_has_checksum(noise(200)));
  EXPECT_FALSE(xz_has_checksum(Bytes(guarded.begin() + 4, guarded.end())));
}

}  // namespace
}  // namespace damacy
