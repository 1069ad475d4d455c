#include "damacy/wave/needed_blocks.h"

#include <gtest/gtest.h>

#include "damacy/codec/chain.h"
#include "support/blosc_chunks.h"

namespace damacy {
namespace {

using testing::ChunkBytes;

constexpr std::uint64_t kSize = 100'000, kBlock = 1000, kTable = 16 + 4 * 100;

ChunkBytes chunk(const testing::BloscWriter& writer = {.typesize = 4, .blocksize = kBlock}) {
  return testing::blosc_packed(testing::image(kSize), writer);
}

NeededBlocks blocks_of(const ChunkBytes& encoded, const std::vector<ByteRange>& needed) {
  NeededBlocks found;
  EXPECT_TRUE(find_needed_blocks(encoded, encoded.size(), kSize, needed, found).ok());
  return found;
}

TEST(NeededBlocks, parts_are_whole_blocks_and_neighbours_are_one) {
  const ChunkBytes encoded = chunk();
  const NeededBlocks found = blocks_of(encoded, {{10, 20}, {1500, 2500}, {99'990, 100'000}});
  ASSERT_EQ(found.decoded.size(), 2u);
  EXPECT_EQ(found.decoded[0].range, (ByteRange{0, 3000}));
  EXPECT_EQ(found.decoded[1].range, (ByteRange{99'000, 100'000}));
  EXPECT_EQ(found.frames, 4 * found.header.splits(0));
  EXPECT_EQ(found.encoded.size(), 3u);  // the table, three blocks that follow one another, and the last
}

TEST(NeededBlocks, decoded_parts_keep_their_alignment_and_do_not_overlap) {
  const NeededBlocks found = blocks_of(chunk(), {{10, 20}, {5001, 5002}, {70'000, 72'000}});
  std::uint64_t end = 0;
  for (const NeededBlocks::Part& part : found.decoded) {
    EXPECT_EQ(part.at % 256, part.range.begin % 256);
    EXPECT_GE(part.at, end);
    end = part.at + part.range.size();
  }
  EXPECT_EQ(found.decoded_bytes, end);
}

TEST(NeededBlocks, what_was_staged_decodes_after_it_was_spread) {
  const ChunkBytes encoded = chunk({.typesize = 4, .blocksize = kBlock, .filter_flags = 1, .gap = 33});
  const std::vector<ByteRange> needed = {{3100, 3200}, {50'000, 50'001}, {98'765, 99'999}};
  const NeededBlocks found = blocks_of(encoded, needed);
  ChunkBytes staged(found.encoded_size, std::byte{0xee});
  for (const NeededBlocks::Part& part : found.encoded)
    std::copy_n(encoded.begin() + static_cast<std::ptrdiff_t>(part.range.begin), part.range.size(),
                staged.begin() + static_cast<std::ptrdiff_t>(part.at));
  EXPECT_LT(found.staged_bytes, encoded.size() / 10);
  found.spread(staged);
  ChunkBytes decoded(kSize);
  DecodeContext context;
  const CodecChain chain({{.id = CodecId::blosc, .name = "blosc"}});
  EXPECT_TRUE(chain.decode_partial(staged, found.available(), decoded, needed, context).ok());
  const ChunkBytes raw = testing::image(kSize);
  for (const ByteRange& range : needed)
    for (std::uint64_t i = range.begin; i < range.end; ++i) ASSERT_EQ(decoded[i], raw[i]) << i;
}

TEST(NeededBlocks, a_short_head_says_where_the_table_ends) {
  const ChunkBytes encoded = chunk();
  NeededBlocks found;
  const std::vector<ByteRange> needed = {{0, 1}};
  const DecodeResult result = find_needed_blocks(std::span(encoded).first(100), encoded.size(), kSize, needed, found);
  EXPECT_EQ(result.status, DecodeStatus::need_more);
  EXPECT_EQ(result.expected, kTable);
  EXPECT_TRUE(find_needed_blocks(std::span(encoded).first(kTable), encoded.size(), kSize, needed, found).ok());
  EXPECT_EQ(found.table.size(), kTable);
}

TEST(NeededBlocks, frames_without_blocks_for_a_device_are_left_to_the_host) {
  const ChunkBytes zlib = chunk({.blocksize = kBlock, .codec = BloscCodec::zlib});
  ChunkBytes copied = testing::blosc_header(1 << 1 | 1 << 5, 1, kSize, kSize, kSize + 16);
  testing::append(copied, testing::image(kSize));
  const std::vector<ByteRange> needed = {{0, 1}};
  NeededBlocks found;
  for (const ChunkBytes& encoded : {zlib, copied})
    EXPECT_EQ(find_needed_blocks(encoded, encoded.size(), kSize, needed, found).status, DecodeStatus::unsupported);
}

TEST(NeededBlocks, bytes_of_no_part_have_no_place) {
  const NeededBlocks found = blocks_of(chunk(), {{1500, 1600}, {7000, 7001}});
  EXPECT_EQ(found.shift_of({1000, 2000}), found.decoded[0].at - 1000);
  EXPECT_EQ(found.shift_of({7999, 8000}), found.decoded[1].at - 7000);
  for (const ByteRange& range : {ByteRange{0, 1}, ByteRange{999, 1001}, ByteRange{1999, 2001}, ByteRange{8000, 8001}})
    EXPECT_FALSE(found.shift_of(range)) << range.begin;
}

}  // namespace
}  // namespace damacy
