// What is prepared for a device of a chunk: crops, placements, frames, and notes from which frames are found again.
#include "damacy/wave/stage_chunk.h"

#include <gtest/gtest.h>

#include "damacy/copy/block_copy.h"
#include "support/wave_runs.h"

namespace damacy {
namespace {

using testing::blosc_chain;
using testing::blosc_chunk;
using testing::ChunkBytes;
using testing::FakeChunks;
using testing::raw_chunk;

// Rows 2 to 4, columns 1 to 3 of u16 elements of 5 x 6, to a row of their own, swapped and converted.
BlockCopy corner() {
  BlockCopy copy;
  copy.op = {Dtype::u16, Dtype::f32, true};
  copy.rank = 2;
  copy.src_offset = (2 * 6 + 1) * 2;
  copy.dst_offset = 400;
  copy.axes[0] = {3, 12, 12};
  copy.axes[1] = {3, 2, 4};
  return copy;
}

TEST(Crop, has_the_bits_of_its_elements_row_by_row) {
  const BlockCopy copy = corner();
  EXPECT_EQ(bytes_of_crop(copy), 18u);
  ChunkBytes chunk(60), crop(18);
  for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<std::byte>(i);
  run_block_copy(crop_of(copy), chunk, crop);
  std::size_t at = 0;
  for (std::size_t row = 2; row < 5; ++row)
    for (std::size_t byte = 2; byte < 8; ++byte) EXPECT_EQ(crop[at++], chunk[row * 12 + byte]);
}

TEST(Crop, is_placed_as_the_chunk_would_be) {
  const BlockCopy copy = corner();
  PlacementList list;
  add_crop(list, copy, /*address=*/4096);
  ASSERT_EQ(list.size(), 1u);
  const Placement& placed = list.placements()[0];
  EXPECT_EQ(placed.src, 4096u);
  EXPECT_EQ(placed.dst, 400u);
  EXPECT_EQ(placed.src_offset, 0);
  EXPECT_EQ(placed.elements(), 9u);
  EXPECT_EQ(placed.op, copy.op);
  EXPECT_EQ(placed.layout.chunk_bytes, 18u);
}

TEST(Placements, are_one_for_each_use_and_count_its_elements) {
  testing::WaveRuns runs;
  const auto chunks = runs.want({raw_chunk(1000, {{0, 10}, {500, 900}})});
  const auto wave = runs.new_wave();
  StagedChunk& staged = wave->add(chunks, 0);
  ChunkLayout layout;
  layout.chunk_bytes = 1000;
  PlacementList list;
  add_placements(list, staged, WantedChunks::From::chunk, 8192, layout);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list.placements()[1].src_offset, 500);
  std::vector<std::pair<std::uint32_t, std::int64_t>> counted;
  staged.placed.for_each([&](std::uint32_t part, std::int64_t elements) { counted.emplace_back(part, elements); });
  EXPECT_EQ(counted, (std::vector<std::pair<std::uint32_t, std::int64_t>>{{0, 10}, {1, 400}}));
}

TEST(PlacedParts, counts_neighbours_of_one_part_together_and_any_number_of_parts) {
  PlacedParts placed;
  for (const std::uint32_t part : {0u, 0u, 1u, 2u, 2u, 3u}) placed.add(part, 5);
  std::vector<std::pair<std::uint32_t, std::int64_t>> counted;
  placed.for_each([&](std::uint32_t part, std::int64_t elements) { counted.emplace_back(part, elements); });
  EXPECT_EQ(counted, (std::vector<std::pair<std::uint32_t, std::int64_t>>{{0, 10}, {1, 5}, {2, 10}, {3, 5}}));
  placed.clear();
  placed.for_each([](std::uint32_t, std::int64_t) { ADD_FAILURE(); });
}

TEST(DeviceDecodes, one_codec_with_kernels_and_checksums_around_it) {
  const auto chain = [](std::initializer_list<CodecId> ids) {
    std::vector<CodecSpec> specs;
    for (const CodecId id : ids) specs.push_back({.id = id, .name = "codec"});
    return CodecChain(specs);
  };
  EXPECT_TRUE(device_decodes(CodecChain()));
  EXPECT_TRUE(device_decodes(chain({CodecId::zstd})));
  EXPECT_TRUE(device_decodes(chain({CodecId::blosc, CodecId::crc32c})));
  EXPECT_FALSE(device_decodes(chain({CodecId::gzip})));
  EXPECT_FALSE(device_decodes(chain({CodecId::shuffle, CodecId::zstd})));
  EXPECT_FALSE(device_decodes(chain({CodecId::zstd, CodecId::blosc})));
}

// The same frames, to the same places, as its bytes give.
TEST(Note, of_a_chunk_has_its_frames) {
  const CodecChain chain = blosc_chain();
  const testing::FakeChunk chunk = blosc_chunk(50'000, {{0, 50'000}}, 2048);
  const auto decoder = make_host_stream_decoder();
  const auto list = decoder->make_list({.scratch_bytes = 1 << 20});
  std::size_t owned = 0;
  StagedFrames staged;
  const StagedBytes bytes{chunk.stored, 256, 512, 50'000, {{0, 50'000}}};
  ASSERT_TRUE(stage_frames(chain, bytes, {*list, [&](auto indices) { owned += indices.size(); }}, staged).ok());
  EXPECT_TRUE(staged.all);
  EXPECT_FALSE(staged.host);
  EXPECT_EQ(owned, list->count());

  std::vector<std::byte> note;
  if (!describe_chunk(chain, chunk.stored, 50'000, *list, note)) GTEST_SKIP() << "this decoder describes no frames";
  std::vector<FrameList::DescribedFrame> frames;
  const StagedFrames found = find_described(note, 256, 512, bytes.needed, frames);
  EXPECT_EQ(frames.size(), owned);
  EXPECT_EQ(found.layout, staged.layout);
  EXPECT_EQ(found.in_source, staged.in_source);
}

TEST(StageFrames, leave_a_damaged_chunk_to_the_host) {
  const testing::FakeChunk chunk = blosc_chunk(50'000, {{0, 50'000}}, 2048);
  ChunkBytes damaged = chunk.stored;
  damaged.resize(30);
  const auto decoder = make_host_stream_decoder();
  const auto list = decoder->make_list({.scratch_bytes = 1 << 20});
  StagedFrames staged;
  const StagedBytes bytes{damaged, 0, 0, 50'000, {{0, 50'000}}};
  const DecodeResult result = stage_frames(blosc_chain(), bytes, {*list, [](auto) {}}, staged);
  EXPECT_TRUE(!result.ok() || staged.host);
}

}  // namespace
}  // namespace damacy
