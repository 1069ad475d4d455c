// What the scan refuses, what it leaves to the host, and how far it describes a frame of which little is needed.
#include "damacy/codec/gpu_zstd/frame_scan.h"

#include <gtest/gtest.h>

#include "damacy/codec/zstd.h"
#include "support/reference_decoder.h"
#include "support/zstd_frames.h"

namespace damacy::gpu {
namespace {

using testing::Bytes;
using testing::Random;
using testing::ZstdWriter;

struct Scanned {
  DecodeResult result;
  FrameScan scan;
};

Scanned scan(const Bytes& encoded, std::size_t size, std::uint64_t needed = 0) {
  Scanned scanned;
  const GpuFrame frame{0, encoded.size(), 0, size, GpuCodec::zstd, needed};
  scanned.result = scan_frame(encoded, frame, scanned.scan);
  return scanned;
}

DecodeResult on_host(const Bytes& encoded, std::size_t size, std::uint64_t needed) {
  Bytes out(size);
  return ZstdDecoder().decode(encoded, out, needed);
}

Bytes text_frame(std::size_t size, const ZstdWriter& writer) {
  Random random(1);
  Bytes encoded;
  writer.append(testing::text_like(random, size), encoded);
  return encoded;
}

TEST(FrameScan, leaves_to_the_host_what_it_alone_doubts) {
  Bytes encoded = text_frame(5000, {});
  const Scanned good = scan(encoded, 5000);
  ASSERT_TRUE(good.result.ok());
  ASSERT_FALSE(good.scan.ask_host);
  const Block& block = good.scan.blocks.at(0);
  ASSERT_GT(block.sequence_count, 0u);
  encoded[block.source + block.sequence_offset] |= std::byte{1};  // a reserved bit: libraries differ in what they say
  const Scanned doubtful = scan(encoded, 5000);
  EXPECT_TRUE(doubtful.result.ok()) << doubtful.result.detail;
  EXPECT_TRUE(doubtful.scan.ask_host);
}

// The header promises fewer bytes than the chunk has, although the first of them are there.
TEST(FrameScan, refuses_frames_that_cannot_give_all_of_a_chunk_whatever_is_needed) {
  const Bytes encoded = text_frame(1000, {.window_log = 10});
  for (const std::uint64_t needed : {std::uint64_t{1}, std::uint64_t{500}, std::uint64_t{5000}}) {
    EXPECT_EQ(scan(encoded, 5000, needed).result.status, DecodeStatus::size) << needed;
    EXPECT_EQ(on_host(encoded, 5000, needed).status, DecodeStatus::size) << needed;
  }
}

TEST(FrameScan, cuts_one_frame_behind_what_is_needed_and_never_several) {
  const ZstdWriter writer{.window_log = 10, .content_size = false};  // blocks of 1 KiB
  Bytes one = text_frame(20000, writer);
  const Scanned cut = scan(one, 20000, 3000);
  ASSERT_TRUE(cut.result.ok());
  EXPECT_EQ(cut.scan.frame.cut, 1u);
  EXPECT_LT(cut.scan.blocks.size(), 10u);

  const Bytes second = text_frame(20000, writer);
  one.insert(one.end(), second.begin(), second.end());
  const Scanned whole = scan(one, 40000, 3000);
  ASSERT_TRUE(whole.result.ok());
  EXPECT_EQ(whole.scan.frame.cut, 0u);
  EXPECT_EQ(whole.scan.frame.needed, 40000u);
}

// A window of 1 KiB allows blocks of 1 KiB; this one gives 4,000 bytes.
TEST(FrameScan, a_block_larger_than_its_window_allows_is_refused_as_on_the_host) {
  Random random(2);
  Bytes encoded;
  ZstdWriter{.level = 3, .window_log = 17, .checksum = false, .content_size = false}.append(
      testing::few_values(random, 4000), encoded);
  ASSERT_EQ(encoded[4] & std::byte{0xe0}, std::byte{0});  // no content size, a window byte
  Bytes out(4000);
  ASSERT_TRUE(ReferenceDecoder().decode(encoded, GpuCodec::zstd, out).ok());
  encoded[5] = std::byte{0};
  EXPECT_FALSE(on_host(encoded, 4000, 4000).ok());
  EXPECT_FALSE(ReferenceDecoder().decode(encoded, GpuCodec::zstd, out).ok());
}

}  // namespace
}  // namespace damacy::gpu
