// What waves promise to those who add frames: indices, limits, and images that do not depend on how frames came.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "damacy/codec/gpu_decoder.h"
#include "support/zstd_frames.h"

namespace damacy {
namespace {

using gpu::testing::Bytes;

FrameScan scan_of(std::size_t size, std::uint64_t position) {
  gpu::testing::Random random(size);
  Bytes encoded;
  gpu::testing::ZstdWriter{}.append(gpu::testing::microscopy(random, size), encoded);
  FrameScan scan;
  EXPECT_TRUE(scan_frame(encoded, {position, encoded.size(), position, size, GpuCodec::zstd, 0}, scan).ok());
  return scan;
}

Bytes image_of(const WaveDescriptors& wave) {
  Bytes image(image_bytes(wave.shape()));
  wave.write_image(image);
  return image;
}

TEST(WaveDescriptors, frames_added_together_are_as_if_added_one_by_one) {
  std::vector<FrameScan> scans;
  for (std::size_t i = 0; i < 5; ++i) scans.push_back(scan_of(1000 + 60000 * i, 400000 * i));
  WaveDescriptors one_by_one(WaveLimits{}), together(WaveLimits{});
  std::vector<std::uint32_t> indices(scans.size());
  for (const FrameScan& scan : scans) static_cast<void>(one_by_one.add(scan));
  together.add(scans, indices);
  EXPECT_EQ(indices, (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(image_of(one_by_one), image_of(together));
  EXPECT_EQ(scratch_bytes(one_by_one.shape()), scratch_bytes(together.shape()));
}

TEST(WaveDescriptors, frames_that_do_not_all_fit_are_added_as_far_as_they_do) {
  const std::vector<FrameScan> scans(5, scan_of(3000, 0));
  WaveDescriptors wave(WaveLimits{.frames = 3});
  std::vector<std::uint32_t> indices(scans.size());
  wave.add(scans, indices);
  EXPECT_EQ(indices, (std::vector<std::uint32_t>{0, 1, 2, WaveDescriptors::kFull, WaveDescriptors::kFull}));
  EXPECT_EQ(wave.shape().frames, 3u);
}

TEST(WaveDescriptors, scratch_never_exceeds_its_limit) {
  const FrameScan scan = scan_of(50000, 0);
  for (std::uint64_t limit = 0; limit < 400000; limit += 9999) {
    WaveDescriptors wave(WaveLimits{.scratch_bytes = limit});
    while (wave.add(scan) != WaveDescriptors::kFull) {
    }
    if (wave.shape().frames != 0) {
      EXPECT_LE(scratch_bytes(wave.shape()), limit);
    }
  }
}

TEST(WaveDescriptors, the_image_and_status_words_never_exceed_their_limit) {
  const FrameScan scan = scan_of(300, 0);
  for (std::uint64_t limit = 0; limit < 40000; limit += 999) {
    WaveDescriptors wave(WaveLimits{.image_bytes = limit});
    while (wave.add(scan) != WaveDescriptors::kFull) {
    }
    if (wave.shape().frames != 0) {
      EXPECT_LE((image_bytes(wave.shape()) + 255) / 256 * 256 + 4 * wave.shape().frames, limit);
    }
    if (limit > 20000) {
      EXPECT_GT(wave.shape().frames, 0u);
      EXPECT_GT(wave.fill(), 0.9);
    }
  }
}

TEST(WaveDescriptors, threads_that_add_at_once_get_places_of_their_own) {
  constexpr std::uint32_t kEach = 200;
  const FrameScan scan = scan_of(2000, 0);
  WaveDescriptors wave(WaveLimits{});
  std::vector<std::uint32_t> indices(4 * kEach);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::uint32_t i = 0; i < kEach; ++i) indices[t * kEach + i] = wave.add(scan);
      });
  }
  std::sort(indices.begin(), indices.end());
  for (std::uint32_t i = 0; i < 4 * kEach; ++i) ASSERT_EQ(indices[i], i);
  EXPECT_EQ(wave.shape().blocks, 4 * kEach * scan.blocks.size());
}

}  // namespace
}  // namespace damacy
