// Chains of codecs: sizes between them, checksums, and what is refused.
#include "damacy/codec/chain.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <vector>

namespace damacy {
namespace {

using Bytes = std::vector<std::byte>;

Bytes ramp(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i / 3);
  return bytes;
}

Bytes zstd_of(const Bytes& raw) {
  Bytes packed(ZSTD_compressBound(raw.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
  return packed;
}

Bytes with_crc32c(Bytes bytes) {
  const std::uint32_t crc = crc32c(bytes);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(crc >> (8 * i)));
  return bytes;
}

DecodeResult decode_all(const CodecChain& chain, const Bytes& encoded, Bytes& out) {
  DecodeContext context;
  const ByteRange all{0, out.size()};
  return chain.decode(encoded, out, {&all, 1}, context);
}

TEST(CodecChain, undoes_a_checksum_behind_zstd) {
  const CodecChain chain({{.id = CodecId::zstd, .name = "zstd"}, {.id = CodecId::crc32c, .name = "crc32c"}});
  const Bytes raw = ramp(1000);
  Bytes out(raw.size(), std::byte{0xaa});
  EXPECT_TRUE(decode_all(chain, with_crc32c(zstd_of(raw)), out).ok());
  EXPECT_EQ(out, raw);
}

TEST(CodecChain, undoes_two_compressors_and_finds_the_size_between_them) {
  const CodecChain chain({{.id = CodecId::zstd, .name = "zstd"}, {.id = CodecId::zstd, .name = "zstd"}});
  const Bytes raw = ramp(100'000);
  Bytes out(raw.size(), std::byte{0xaa});
  EXPECT_TRUE(decode_all(chain, zstd_of(zstd_of(raw)), out).ok());
  EXPECT_EQ(out, raw);
}

TEST(CodecChain, reports_a_wrong_checksum) {
  const CodecChain chain({{.id = CodecId::crc32c, .name = "crc32c"}});
  Bytes encoded = with_crc32c(ramp(10));
  encoded[3] ^= std::byte{1};
  Bytes out(10);
  EXPECT_EQ(decode_all(chain, encoded, out).status, DecodeStatus::checksum);
}

}  // namespace
}  // namespace damacy
