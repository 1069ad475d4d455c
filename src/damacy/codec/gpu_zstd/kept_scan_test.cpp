// A kept scan is the scan of the frame's bytes, whatever is needed of its output.
#include <gtest/gtest.h>

#include "damacy/codec/gpu_decoder.h"
#include "support/zstd_frames.h"

namespace damacy::gpu {
namespace {

using testing::Bytes;
using testing::Random;
using testing::ZstdWriter;

Bytes as_bytes(const FrameScan& scan) {
  Bytes bytes;
  append_scan(scan, bytes);
  return bytes;
}

TEST(KeptScan, is_the_scan_of_the_bytes_whatever_is_needed) {
  Random random(7);
  int cut = 0, whole = 0;
  for (int round = 0; round < 300; ++round) {
    const std::size_t size = 1 + testing::below(random, 60000);
    const ZstdWriter writer{.window_log = 10 + static_cast<int>(testing::below(random, 6)),
                            .checksum = testing::below(random, 4) == 0,
                            .content_size = testing::below(random, 2) == 0};
    Bytes encoded;
    std::size_t decoded = 0;
    for (std::size_t frame = 0; frame <= testing::below(random, 8) / 7; ++frame, decoded += size)
      writer.append(testing::text_like(random, size), encoded);
    GpuFrame frame{11, encoded.size(), 22, decoded, GpuCodec::zstd, 0};
    FrameScan all;
    ASSERT_TRUE(scan_frame(encoded, frame, all).ok());
    if (all.ask_host) continue;
    const Bytes kept = as_bytes(all);
    for (int i = 0; i < 8; ++i) {
      frame.needed_end = testing::below(random, decoded + 2);
      FrameScan expected, found;
      ASSERT_TRUE(scan_frame(encoded, frame, expected).ok());
      read_scan(kept, found);
      cut_scan(found, frame.needed_end);
      ASSERT_EQ(as_bytes(found), as_bytes(expected)) << "needed " << frame.needed_end << " of " << decoded;
      ++(expected.frame.cut != 0 ? cut : whole);
    }
  }
  EXPECT_GT(cut, 100);
  EXPECT_GT(whole, 100);
}

TEST(KeptScan, of_other_codecs_is_not_cut) {
  Random random(8);
  const Bytes text = testing::text_like(random, 5000);
  FrameScan scan, found;
  ASSERT_TRUE(scan_frame(text, {0, text.size(), 0, text.size(), GpuCodec::raw, 0}, scan).ok());
  read_scan(as_bytes(scan), found);
  cut_scan(found, 10);
  EXPECT_EQ(as_bytes(found), as_bytes(scan));
}

}  // namespace
}  // namespace damacy::gpu
