#include "damacy/single/selection_plan.h"

#include <cstring>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "damacy/core/error.h"

namespace damacy {
namespace {

constexpr IndexSlice kAll{0, std::numeric_limits<std::int64_t>::max(), 1};

// Shards of 8 x 8 elements of 2 bytes in chunks of 4 x 4, with a plain index at the end.
std::shared_ptr<const Array> sharded(
    std::string_view index_codecs = R"([{"name": "bytes", "configuration": {"endian": "little"}}])") {
  std::string document = R"({"zarr_format": 3, "node_type": "array", "data_type": "uint16", "fill_value": 0,
      "shape": [40, 40], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 8]}},
      "chunk_key_encoding": {"name": "default"},
      "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [4, 4], "index_location": "end",
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "index_codecs": )";
  document.append(index_codecs).append("}}]}");
  return stored_array("array", document, 3);
}

// An index of four chunks; {offset, bytes} each, or missing.
std::vector<std::byte> index_of(std::vector<std::pair<std::uint64_t, std::uint64_t>> entries) {
  std::vector<std::byte> bytes(entries.size() * 16);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::memcpy(&bytes[i * 16], &entries[i].first, 8);
    std::memcpy(&bytes[i * 16 + 8], &entries[i].second, 8);
  }
  return bytes;
}
constexpr std::pair<std::uint64_t, std::uint64_t> kMissing{~std::uint64_t{0}, ~std::uint64_t{0}};

SelectionPlan plan_for(SelectionPlan::Output output, std::vector<std::int64_t> drop_axes = {}) {
  const std::vector<std::byte> fill(2);
  return {sharded(), std::move(output), fill, std::move(drop_axes)};
}

using Entries = std::vector<IndexEntry>;
using Ranges = std::vector<MergedRead>;

TEST(SelectionPlan, a_stored_array_is_as_large_as_one_object) {
  EXPECT_EQ(sharded()->metadata().shape, (Dims{8, 8}));
  EXPECT_EQ(index_bytes(*sharded()), 4 * 16u);
}

TEST(SelectionPlan, a_fill_of_another_size_is_refused) {
  const std::vector<std::byte> fill(4);
  EXPECT_THROW(SelectionPlan(sharded(), {0, {8, 8}, {16, 2}, false}, fill, {}), Error);
}

TEST(SelectionPlan, the_output_spans_all_that_its_strides_reach) {
  std::vector<std::uint16_t> memory(64);
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  // Rows from the last to the first: element (0, 0) lies in the last row.
  SelectionPlan plan = plan_for({address + 7 * 16, {8, 8}, {-16, 2}, false});
  ASSERT_TRUE(plan.add("c/0/0", Entries{kAll, kAll}, Entries{kAll, kAll}));
  const SelectionRequest request = plan.take();
  EXPECT_EQ(static_cast<void*>(request.out.data()), memory.data());
  EXPECT_EQ(request.out.size(), 128u);
  EXPECT_EQ(request.items[0].axes[0], (AxisRuns{{0, 1, 7 * 16, -16, 8}}));
}

TEST(SelectionPlan, ranges_are_those_of_wanted_chunks_with_neighbours_merged) {
  SelectionPlan plan = plan_for({0, {4, 8}, {16, 2}, false});
  ASSERT_TRUE(plan.add("c/0/0", Entries{IndexSlice{0, 4, 1}, kAll}, Entries{kAll, kAll}));  // the first two chunks
  const auto index = index_of({{100, 32}, {140, 32}, {0, 32}, {60, 32}});
  EXPECT_EQ(plan.ranges("c/0/0", index, /*gap=*/8, /*cap=*/1000), (Ranges{{100, 72, 0, 2}}));
  EXPECT_EQ(plan.ranges("c/0/0", index, /*gap=*/7, /*cap=*/1000), (Ranges{{100, 32, 0, 1}, {140, 32, 1, 1}}));
}

TEST(SelectionPlan, missing_chunks_need_no_range) {
  SelectionPlan plan = plan_for({0, {8, 8}, {16, 2}, false});
  ASSERT_TRUE(plan.add("c/0/0", Entries{kAll, kAll}, Entries{kAll, kAll}));
  const auto index = index_of({kMissing, kMissing, {32, 32}, kMissing});
  EXPECT_EQ(plan.ranges("c/0/0", index, 0, 1000), (Ranges{{32, 32, 0, 1}}));
}

TEST(SelectionPlan, an_index_of_another_size_is_a_short_read) {
  SelectionPlan plan = plan_for({0, {8, 8}, {16, 2}, false});
  ASSERT_TRUE(plan.add("c/0/0", Entries{kAll, kAll}, Entries{kAll, kAll}));
  try {
    static_cast<void>(plan.ranges("c/0/0", index_of({kMissing}), 0, 1000));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.where().reason, "short-read");
    EXPECT_EQ(error.where().key, "c/0/0");
  }
}

TEST(SelectionPlan, points_are_several_items_of_the_request_and_one_of_the_callers) {
  const std::vector<std::int64_t> rows{1, 5}, columns{2, 3}, shape{2}, strides{8};
  const auto view = [&](const std::vector<std::int64_t>& of) {
    return IndexArray{IndexArray::Of::integers, reinterpret_cast<const std::byte*>(of.data()), shape, strides};
  };
  SelectionPlan plan = plan_for({0, {2}, {2}, false});
  ASSERT_TRUE(plan.add("c/0/0", Entries{view(rows), view(columns)}, Entries{kAll}));
  ASSERT_TRUE(plan.add("c/0/1", Entries{IndexSlice{0, 2, 1}, std::int64_t{0}}, Entries{kAll}));
  EXPECT_EQ(plan.of_items("abc"), "ac");
  EXPECT_EQ(plan.take().items.size(), 3u);
}

TEST(SelectionPlan, a_form_that_is_not_supported_is_said_so) {
  SelectionPlan plan = plan_for({0, {8, 8}, {16, 2}, false});
  EXPECT_FALSE(plan.add("c/0/0", Entries{IndexSlice{0, 8, -1}, kAll}, Entries{kAll, kAll}));
}

}  // namespace
}  // namespace damacy
