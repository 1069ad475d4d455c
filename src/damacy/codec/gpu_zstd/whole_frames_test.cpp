#include "support/reference_decoder.h"

#include <gtest/gtest.h>

#include "support/zstd_frames.h"

namespace damacy::gpu {
namespace {

using testing::Bytes;
using testing::Random;

constexpr std::byte kPoison{0xab};

// Decodes into exactly `size` bytes; a guard behind them must stay as it was.
struct Decoded {
  bool ok;
  Fault fault;
  DecodeStatus scan;
  Bytes bytes;
};

Decoded decode(const Bytes& encoded, std::size_t size, GpuCodec codec, std::uint64_t needed_end = 0) {
  static ReferenceDecoder decoder;
  Bytes out(size, kPoison);
  const auto outcome = decoder.decode(encoded, codec, out, needed_end);
  return {outcome.ok(), outcome.fault, outcome.scan.status, std::move(out)};
}

bool libzstd_accepts(const Bytes& encoded, std::size_t size, Bytes& out) {
  out.assign(size, kPoison);
  const std::size_t got = ZSTD_decompress(out.data(), size, encoded.data(), encoded.size());
  return !ZSTD_isError(got) && got == size;
}

bool liblz4_accepts(const Bytes& encoded, std::size_t size, Bytes& out) {
  out.assign(size + 1, kPoison);
  const int got =
      LZ4_decompress_safe(reinterpret_cast<const char*>(encoded.data()), reinterpret_cast<char*>(out.data()),
                          static_cast<int>(encoded.size()), static_cast<int>(size));
  out.resize(size);
  return got == static_cast<int>(size);
}

std::size_t random_size(Random& random) {
  return random() % 4 == 0 ? random() % 64 : random() % (random() % 4 == 0 ? 300000 : 20000);
}

TEST(ReferenceDecoder, gives_what_libzstd_packed) {
  Random random(1);
  for (int round = 0; round < 400; ++round) {
    const Bytes content = testing::random_content(random, random_size(random));
    const Bytes encoded = testing::random_zstd(random, content);
    const Decoded decoded = decode(encoded, content.size(), GpuCodec::zstd);
    ASSERT_TRUE(decoded.ok) << "round " << round << " fault " << static_cast<int>(decoded.fault);
    ASSERT_EQ(decoded.bytes, content) << "round " << round;
  }
}

TEST(ReferenceDecoder, decodes_every_level_and_window) {
  Random random(2);
  const Bytes content = testing::microscopy(random, 4096);
  for (int level = -5; level <= 22; ++level) {
    for (const int window_log : {0, 10, 11, 17}) {
      Bytes encoded;
      testing::ZstdWriter{level, window_log, true, (level & 1) != 0}.append(content, encoded);
      const Decoded decoded = decode(encoded, content.size(), GpuCodec::zstd);
      ASSERT_TRUE(decoded.ok) << "level " << level << " window " << window_log;
      ASSERT_EQ(decoded.bytes, content);
    }
  }
}

// `encode` makes a frame of random content, which may be empty except for LZ4; `library` says whether the codec's
// library accepts a mutated one, and gives what it makes of it.
template <class Encode, class Accepts>
void expect_no_other_verdict(unsigned seed, int rounds, GpuCodec codec, Encode encode, Accepts library) {
  const bool is_lz4 = codec == GpuCodec::lz4;
  Random random(seed);
  int accepted = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    const Bytes content = testing::random_content(random, (is_lz4 ? 1 : 0) + random() % 3000);
    Bytes encoded = encode(random, content), expected;
    testing::mutate(random, encoded);
    if (is_lz4 && encoded.empty()) continue;
    const Decoded decoded = decode(encoded, content.size(), codec);
    if (decoded.ok) {
      ASSERT_TRUE(library(encoded, content.size(), expected)) << "round " << round;
      ASSERT_EQ(decoded.bytes, expected) << "round " << round;
    }
    ++(decoded.ok ? accepted : refused);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

TEST(ReferenceDecoder, accepts_no_mutated_frame_that_libzstd_refuses_nor_other_bytes) {
  expect_no_other_verdict(3, 4000, GpuCodec::zstd, testing::random_zstd, libzstd_accepts);
}

TEST(ReferenceDecoder, gives_what_liblz4_packed) {
  Random random(4);
  for (int round = 0; round < 600; ++round) {
    const Bytes content = testing::random_content(random, 1 + random_size(random));
    const Bytes encoded = testing::random_lz4(random, content);
    const Decoded decoded = decode(encoded, content.size(), GpuCodec::lz4);
    ASSERT_TRUE(decoded.ok) << "round " << round;
    ASSERT_EQ(decoded.bytes, content) << "round " << round;
  }
}

TEST(ReferenceDecoder, accepts_no_mutated_lz4_block_that_liblz4_refuses_nor_other_bytes) {
  expect_no_other_verdict(5, 6000, GpuCodec::lz4, testing::random_lz4, liblz4_accepts);
}

TEST(ReferenceDecoder, stops_behind_what_is_needed) {
  Random random(6);
  for (int round = 0; round < 100; ++round) {
    const Bytes content = testing::random_content(random, 300000 + random() % 300000);
    const std::size_t needed = 1 + random() % content.size();
    for (const GpuCodec codec : {GpuCodec::zstd, GpuCodec::lz4}) {
      Bytes encoded;
      if (codec == GpuCodec::lz4)
        encoded = testing::lz4_block(content, 1);
      else
        testing::ZstdWriter{1, 0, round % 2 == 0, true}.append(content, encoded);
      const Decoded decoded = decode(encoded, content.size(), codec, needed);
      ASSERT_TRUE(decoded.ok);
      ASSERT_TRUE(
          std::equal(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(needed), decoded.bytes.begin()));
    }
  }
}

TEST(ReferenceDecoder, verifies_a_checksum) {
  Random random(7);
  const Bytes content = testing::microscopy(random, 5000);
  Bytes encoded;
  testing::ZstdWriter{3, 0, true, true}.append(content, encoded);
  encoded.back() ^= std::byte{1};
  EXPECT_EQ(decode(encoded, content.size(), GpuCodec::zstd).fault, Fault::checksum);
}

TEST(ReferenceDecoder, verifies_a_checksum_behind_what_is_needed) {
  Random random(8);
  const Bytes content = testing::microscopy(random, 400000);
  Bytes encoded;
  testing::ZstdWriter{3, 0, false, true}.append(std::span(content).first(300000), encoded);
  testing::ZstdWriter{3, 0, true, true}.append(std::span(content).subspan(300000), encoded);
  encoded.back() ^= std::byte{1};
  EXPECT_EQ(decode(encoded, content.size(), GpuCodec::zstd, 10).fault, Fault::checksum);
}

TEST(ReferenceDecoder, wants_the_declared_size) {
  Random random(9);
  const Bytes content = testing::text_like(random, 5000);
  Bytes encoded;
  testing::ZstdWriter{3, 0, false, false}.append(content, encoded);
  EXPECT_FALSE(decode(encoded, content.size() - 1, GpuCodec::zstd).ok);
  EXPECT_FALSE(decode(encoded, content.size() + 1, GpuCodec::zstd).ok);
  const Bytes block = testing::lz4_block(content, 1);
  EXPECT_FALSE(decode(block, content.size() - 1, GpuCodec::lz4).ok);
  EXPECT_FALSE(decode(block, content.size() + 1, GpuCodec::lz4).ok);
}

}  // namespace
}  // namespace damacy::gpu
