// Chunks of so many frames that their descriptors do not fit a wave's memory: data that compresses very well. They are
// delivered all the same, by the device or by the host, and other samples do not notice.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "damacy/batch/memory_plan.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/device/host_device.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "support/blosc_chunks.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;

constexpr std::int64_t kBlock = 64;

void append(std::string& out, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(number >> shift);
}

// A blosc chunk of LZ4 blocks, all of the same bytes: 64 times `value`.
std::string mask_chunk(std::int64_t blocks, char value) {
  const std::string stream = std::string{'\x1f', value, 1, 0, 39, '\x50'} + std::string(5, value);
  const auto start = static_cast<std::uint32_t>(16 + 4 * blocks);
  std::string out = {2, 1, 1 << 5, 1};
  append(out, static_cast<std::uint32_t>(blocks * kBlock));
  append(out, kBlock);
  append(out, start + 4 + static_cast<std::uint32_t>(stream.size()));
  for (std::int64_t block = 0; block < blocks; ++block) append(out, start);
  append(out, static_cast<std::uint32_t>(stream.size()));
  return out + stream;
}

std::string mask_document(std::int64_t chunks, std::int64_t blocks) {
  return formatted(R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0, )"
                   R"("shape": [{}], "chunk_grid": {{"name": "regular", )"
                   R"("configuration": {{"chunk_shape": [{}]}}}}, "chunk_key_encoding": {{"name": "default", )"
                   R"("configuration": {{"separator": "."}}}},"codecs": [{{"name": "bytes"}}, {{"name": "blosc", )"
                   R"("configuration": {{"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": 1, )"
                   R"("blocksize": 64}}}}]}})",
                   chunks * blocks * kBlock, blocks * kBlock);
}

struct Order {
  HostOrder order;
  const char* name;
};

class FullOnDevice : public ::testing::TestWithParam<Order> {
 protected:
  // Chunk c of the array holds nothing but the letter c.
  Sample mask(std::int64_t chunk, std::int64_t blocks) {
    const std::filesystem::path root = dir_.path() / formatted("mask-{}.zarr", blocks);
    if (std::filesystem::create_directories(root)) {
      std::ofstream(root / "zarr.json") << mask_document(kChunks, blocks);
      for (std::int64_t c = 0; c < kChunks; ++c)
        std::ofstream(root / formatted("c.{}", c), std::ios::binary) << mask_chunk(blocks, letter(c));
    }
    const std::int64_t begin = chunk * blocks * kBlock;
    return {root.string(), {{begin, begin + kTaken}}};
  }
  static char letter(std::int64_t chunk) { return static_cast<char>('a' + chunk); }
  static void expect_row(const Batch& batch, std::size_t row, std::int64_t chunk) {
    for (std::size_t i = 0; i < kTaken; ++i)
      ASSERT_EQ(batch.bytes()[row * kTaken + i], static_cast<std::byte>(letter(chunk))) << row << ", " << i;
  }
  static Pipeline make(std::int64_t batch_size, std::int64_t host_buffer_bytes = 1 << 20) {
    Config config;
    config.batch_size = batch_size;
    config.host_buffer_bytes = host_buffer_bytes;  // an eighth of it is for images
    config.device_buffer_bytes = 64 << 20;
    config.dtype = Dtype::u8;
    PipelineEnvironment around;
    around.device = make_host_device(GetParam().order);
    around.device_from_bytes = 0;
    return Pipeline(config, around);
  }

  static constexpr std::int64_t kChunks = 20;
  static constexpr std::int64_t kTaken = 65536;
  TempDir dir_{"wave-limits"};
};

TEST_P(FullOnDevice, frames_beyond_the_memory_for_their_images_are_decoded_all_the_same) {
  constexpr std::int64_t kMost = 2000, kAfter = 15;  // batches
  Pipeline pipeline = make(4);
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < 4 * kMost; ++i) samples.push_back(mask(i % kChunks, 1024));
  pipeline.push(samples);
  std::int64_t popped = 0;
  const auto pop = [&] {
    const Batch batch = pipeline.pop();
    for (std::int64_t row = 0; row < 4; ++row)
      expect_row(batch, static_cast<std::size_t>(row), (4 * popped + row) % kChunks);
    ++popped;
  };
  // A wave shows how many chunks fit when the next one takes its slot, unless it decodes nothing itself. Until then
  // they all may be too large.
  constexpr auto kLearned = static_cast<std::int64_t>(4 * WaveSizes::kWaves);
  while (popped < kMost - kAfter && pipeline.stats().waves_emitted < kLearned) pop();
  ASSERT_GE(pipeline.stats().waves_emitted, kLearned);
  const std::int64_t on_host = pipeline.stats().chunks_decoded_on_host;
  EXPECT_GT(on_host, 0);
  for (std::int64_t b = 0; b < kAfter; ++b) pop();
  EXPECT_EQ(pipeline.stats().chunks_decoded_on_host, on_host) << "waves are not made smaller";
  EXPECT_GE(pipeline.stats().chunks_decoded + pipeline.stats().chunks_deduplicated, 4 * popped);
}

TEST_P(FullOnDevice, a_chunk_whose_frames_no_wave_holds_is_decoded_on_the_host) {
  Pipeline pipeline = make(2);
  pipeline.push({mask(3, 4096), mask(4, 1024), mask(5, 4096), mask(6, 4096)});
  for (std::int64_t b = 0; b < 2; ++b) {
    const Batch batch = pipeline.pop();
    expect_row(batch, 0, b == 0 ? 3 : 5);
    expect_row(batch, 1, b == 0 ? 4 : 6);
  }
}

// Of each large chunk a thousand small blocks, which are staged without the rest of the chunk.
TEST_P(FullOnDevice, thousands_of_needed_blocks_of_large_chunks_are_decoded) {
  constexpr std::int64_t kBlocks = 9'216;
  const std::filesystem::path root = dir_.path() / "large.zarr";
  std::filesystem::create_directories(root);
  std::ofstream(root / "zarr.json") << mask_document(kChunks, kBlocks);
  testing::ChunkBytes bytes = testing::noise(kBlocks * kBlock);
  for (std::int64_t c = 0; c < kChunks; ++c) {
    std::fill_n(bytes.begin(), kTaken, static_cast<std::byte>(letter(c)));
    const testing::ChunkBytes encoded = testing::blosc_packed(bytes, {.blocksize = kBlock});
    std::ofstream(root / formatted("c.{}", c), std::ios::binary)
        .write(reinterpret_cast<const char*>(encoded.data()), static_cast<std::streamsize>(encoded.size()));
  }
  Pipeline pipeline = make(kChunks, 2 << 20);
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < 3 * kChunks; ++i) {
    const std::int64_t begin = i % kChunks * kBlocks * kBlock;
    samples.push_back({root.string(), {{begin, begin + kTaken}}});
  }
  pipeline.push(samples);
  for (std::int64_t b = 0; b < 3; ++b) {
    const Batch batch = pipeline.pop();
    for (std::int64_t row = 0; row < kChunks; ++row) expect_row(batch, static_cast<std::size_t>(row), row);
  }
  const Stats stats = pipeline.stats();
  EXPECT_LT(stats.bytes_read, 3 * kChunks * 100'000);
}

INSTANTIATE_TEST_SUITE_P(HostDevices, FullOnDevice,
                         ::testing::Values(Order{{HostOrder::Kind::eager, 0, false}, "eager"},
                                           Order{{HostOrder::Kind::lazy, 0, false}, "lazy"},
                                           Order{{HostOrder::Kind::random, 1, false}, "random"}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace damacy
