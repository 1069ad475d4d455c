#include "damacy/plan/selection.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(Selection, indices_in_steps_become_one_run) {
  const std::vector<std::int64_t> from{3, 5, 7, 7, 2}, to{0, 4, 8, 12, 16};
  EXPECT_EQ(as_runs(from, to), (AxisRuns{{3, 2, 0, 4, 3}, {7, 1, 12, 0, 1}, {2, 1, 16, 0, 1}}));
}

// Two selections of an object of 4 x 6 elements in chunks of 2 x 3: all of it, and the last row.
TEST(Selection, chunks_of_several_selections_are_listed_once) {
  const Array object("array", nullptr, "", "", Stamp{}, parse_v3_array(R"({
      "zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0, "shape": [4, 6],
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
      "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]})"),
                     std::vector<std::string>{});
  const std::vector<AxisRuns> all{{{0, 1, 0, 6, 4}}, {{0, 1, 0, 1, 6}}}, last{{{3, 1, 24, 6, 1}}, {{0, 1, 0, 1, 6}}};
  const std::vector<std::span<const AxisRuns>> selections{all, last};
  const SelectedChunks chunks(object, selections);
  ASSERT_EQ(chunks.size(), 4u);
  EXPECT_EQ(chunks.coordinates(0), (Dims{0, 0}));
  EXPECT_EQ(chunks.copies(0), 1);
  EXPECT_EQ(chunks.coordinates(3), (Dims{1, 1}));
  EXPECT_EQ(chunks.number(3), 3u);
  EXPECT_EQ(chunks.copies(3), 2);
  EXPECT_EQ(chunks.needed_bytes(3), (std::vector<ByteRange>{{0, 6}}));
  std::vector<std::int64_t> to;
  chunks.for_copies(3, object.chunk_strides(), 0, {Dtype::u8, Dtype::u8, false},
                    [&](const BlockCopy& copy) { to.push_back(copy.dst_offset); });
  EXPECT_EQ(to, (std::vector<std::int64_t>{15, 27}));
}

TEST(Selection, a_run_is_cut_where_chunks_end) {
  const std::vector<AxisPart> parts = split_runs({{2, 3, 0, 10, 4}}, /*chunk_extent=*/4);  // 2 5 8 11
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].runs, (AxisRuns{{2, 3, 0, 10, 1}}));
  EXPECT_EQ(parts[1].runs, (AxisRuns{{1, 3, 10, 10, 1}}));
  EXPECT_EQ(parts[2].runs, (AxisRuns{{0, 3, 20, 10, 2}}));
}

TEST(Selection, unsorted_and_repeated_indices_meet_in_their_chunk) {
  const std::vector<std::int64_t> from{6, 1, 6, 0}, to{0, 1, 2, 3};
  const std::vector<AxisPart> parts = split_runs(as_runs(from, to), 4);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].chunk, 0);
  EXPECT_EQ(parts[1].chunk, 1);
  std::int64_t count = 0;
  for (const damacy::Run& run : parts[1].runs) count += run.count;
  EXPECT_EQ(count, 2);
}

TEST(Selection, every_part_brings_its_elements_to_their_places) {
  // A 4 x 6 object of bytes in chunks of 2 x 3; rows 3 and 0, columns 1, 3, 5 to a 2 x 3 destination.
  const std::vector<std::int64_t> rows{3, 0}, row_places{0, 3};
  const std::vector<AxisRuns> axes{as_runs(rows, row_places), {{1, 2, 0, 1, 3}}};
  const SplitSelection selection(axes, {2, 3});
  const Dims strides{3, 1};
  std::vector<std::byte> out(6, std::byte{0xff});
  for (std::int64_t part = 0; part < selection.size(); ++part) {
    const Dims chunk = selection.chunk_of(part);
    std::vector<std::byte> elements(6);
    for (std::int64_t i = 0; i < 6; ++i)
      elements[static_cast<std::size_t>(i)] = static_cast<std::byte>((chunk[0] * 2 + i / 3) * 6 + chunk[1] * 3 + i % 3);
    const ByteRange range = selection.bytes_of(part, strides, 1);
    EXPECT_LE(range.end, 6u);
    selection.for_copies(part, strides, 0, {Dtype::u8, Dtype::u8, false},
                         [&](const BlockCopy& copy) { run_block_copy(copy, elements, out); });
  }
  const std::vector<int> expected{19, 21, 23, 1, 3, 5};
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::to_integer<int>(out[i]), expected[i]) << i;
}

TEST(Selection, an_axis_with_nothing_leaves_no_part) {
  const std::vector<AxisRuns> axes{{}, {{0, 1, 0, 1, 3}}};
  EXPECT_EQ(SplitSelection(axes, {2, 3}).size(), 0);
}

}  // namespace
}  // namespace damacy
