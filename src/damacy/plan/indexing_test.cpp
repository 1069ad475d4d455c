#include "damacy/plan/indexing.h"

#include <limits>

#include <gtest/gtest.h>

namespace damacy {
namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
constexpr IndexSlice kAll{0, kEnd, 1};

// An index array of its own memory. `rank` axes, of which `axis` is the long one.
class Numbers {
 public:
  explicit Numbers(std::vector<std::int64_t> values, std::size_t rank = 1, std::size_t axis = 0)
      : values_(std::move(values)), shape_(rank, 1), strides_(rank, 8) {
    shape_[axis] = static_cast<std::int64_t>(values_.size());
  }
  operator IndexEntry() const {  // NOLINT(google-explicit-constructor)
    return IndexArray{IndexArray::Of::integers, reinterpret_cast<const std::byte*>(values_.data()), shape_, strides_};
  }

 private:
  std::vector<std::int64_t> values_, shape_, strides_;
};

class Mask {
 public:
  explicit Mask(std::vector<std::uint8_t> values)
      : values_(std::move(values)), shape_{static_cast<std::int64_t>(values_.size())} {}
  operator IndexEntry() const {  // NOLINT(google-explicit-constructor)
    return IndexArray{IndexArray::Of::mask, reinterpret_cast<const std::byte*>(values_.data()), shape_, strides_};
  }

 private:
  std::vector<std::uint8_t> values_;
  std::vector<std::int64_t> shape_, strides_{1};
};

OutLayout bytes_of(std::vector<std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return {std::move(shape), std::move(strides), 0};
}

using Indices = std::vector<IndexEntry>;
using Runs = std::optional<std::vector<AxisRuns>>;

Runs runs(const Indices& from, const Indices& to, const Dims& chunk, const OutLayout& out,
          const std::vector<std::int64_t>& drop_axes = {}) {
  return runs_of(from, to, chunk, out, drop_axes);
}

TEST(Indexing, slices_count_from_the_end_and_are_cut_like_pythons) {
  const OutLayout out = bytes_of({3});
  const Runs expected{{AxisRuns{{7, 1, 0, 1, 3}}}};
  EXPECT_EQ(runs({IndexSlice{-3, kEnd, 1}}, {kAll}, {10}, out), expected);
  EXPECT_EQ(runs({IndexSlice{7, 10, 1}}, {kAll}, {10}, out), expected);
  const Runs from_start{{AxisRuns{{0, 4, 0, 1, 3}}}};
  EXPECT_EQ(runs({IndexSlice{-99, kEnd, 4}}, {kAll}, {10}, out), from_start);
}

TEST(Indexing, an_empty_slice_has_no_runs) {
  EXPECT_EQ(runs({IndexSlice{5, 2, 1}}, {kAll}, {10}, bytes_of({0})), (Runs{{AxisRuns{}}}));
}

TEST(Indexing, a_slice_with_a_negative_or_no_step_is_not_supported) {
  EXPECT_FALSE(runs({IndexSlice{9, 0, -1}}, {kAll}, {10}, bytes_of({9})));
  EXPECT_FALSE(runs({IndexSlice{0, 9, 0}}, {kAll}, {10}, bytes_of({9})));
}

TEST(Indexing, an_axis_that_the_index_does_not_name_is_taken_whole) {
  EXPECT_EQ(runs({IndexSlice{1, 2, 1}}, {kAll, kAll}, {4, 6}, bytes_of({1, 6})),
            (Runs{{AxisRuns{{1, 1, 0, 6, 1}}, AxisRuns{{0, 1, 0, 1, 6}}}}));
}

TEST(Indexing, an_integer_takes_its_axis_away_on_either_side) {
  // out[1, :] = chunk[:, 2]
  EXPECT_EQ(runs({kAll, std::int64_t{2}}, {std::int64_t{1}, kAll}, {4, 6}, bytes_of({2, 4})),
            (Runs{{AxisRuns{{0, 1, 4, 1, 4}}, AxisRuns{{2, 1, 0, 0, 1}}}}));
}

TEST(Indexing, an_integer_outside_its_axis_is_not_supported) {
  EXPECT_FALSE(runs({std::int64_t{4}}, {}, {4}, bytes_of({})));
  EXPECT_FALSE(runs({std::int64_t{-1}}, {}, {4}, bytes_of({})));
}

TEST(Indexing, an_array_and_a_mask_name_the_same_elements) {
  const Runs expected{{AxisRuns{{1, 2, 0, 1, 2}, {4, 1, 2, 0, 1}}}};
  EXPECT_EQ(runs({Numbers({1, 3, 4})}, {kAll}, {5}, bytes_of({3})), expected);
  EXPECT_EQ(runs({Mask({0, 1, 0, 1, 1})}, {kAll}, {5}, bytes_of({3})), expected);
}

TEST(Indexing, a_mask_has_the_length_of_its_axis) {
  EXPECT_FALSE(runs({Mask({0, 1})}, {kAll}, {5}, bytes_of({1})));
}

TEST(Indexing, an_array_with_an_index_outside_is_not_supported) {
  EXPECT_FALSE(runs({Numbers({1, 5})}, {kAll}, {5}, bytes_of({2})));
  EXPECT_FALSE(runs({Numbers({1, -1})}, {kAll}, {5}, bytes_of({2})));
}

TEST(Indexing, arrays_as_of_np_ix_take_an_axis_each) {
  EXPECT_EQ(runs({Numbers({3, 0}, 2, 0), Numbers({1, 2}, 2, 1)}, {kAll, kAll}, {4, 6}, bytes_of({2, 2})),
            (Runs{{AxisRuns{{3, 1, 0, 0, 1}, {0, 1, 2, 0, 1}}, AxisRuns{{1, 1, 0, 1, 2}}}}));
}

TEST(Indexing, arrays_with_two_long_axes_or_that_broadcast_are_not_supported) {
  EXPECT_FALSE(runs({Numbers({0, 1}), Numbers({0, 1})}, {kAll}, {4, 6}, bytes_of({2})));
}

TEST(Indexing, a_slice_between_an_integer_and_an_array_would_reorder_axes) {
  EXPECT_FALSE(runs({std::int64_t{0}, kAll, Numbers({1, 2})}, {kAll, kAll}, {2, 3, 4}, bytes_of({2, 3})));
  EXPECT_TRUE(runs({std::int64_t{0}, Numbers({1, 2}), kAll}, {kAll, kAll}, {2, 3, 4}, bytes_of({2, 4})));
}

TEST(Indexing, a_dropped_axis_has_one_element) {
  EXPECT_EQ(runs({IndexSlice{2, 3, 1}, kAll}, {kAll}, {4, 6}, bytes_of({6}), {0}),
            (Runs{{AxisRuns{{2, 1, 0, 0, 1}}, AxisRuns{{0, 1, 0, 1, 6}}}}));
  EXPECT_FALSE(runs({IndexSlice{2, 4, 1}, kAll}, {kAll}, {4, 6}, bytes_of({6}), {0}));
}

TEST(Indexing, lengths_and_numbers_of_axes_must_agree) {
  EXPECT_FALSE(runs({kAll}, {kAll}, {4}, bytes_of({5})));
  EXPECT_FALSE(runs({kAll}, {kAll, kAll}, {4}, bytes_of({4, 2})));
  EXPECT_FALSE(runs({kAll, kAll}, {kAll}, {4}, bytes_of({4})));
}

TEST(Indexing, points_in_a_row_are_one_selection) {
  const Numbers rows({2, 2, 3}), columns({0, 4, 1});
  const auto all = runs_of_points(Indices{rows, columns}, Indices{kAll}, {4, 6}, bytes_of({3}));
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0], (std::vector<AxisRuns>{{{2, 1, 0, 0, 1}}, {{0, 4, 0, 1, 2}}}));
  EXPECT_EQ((*all)[1], (std::vector<AxisRuns>{{{3, 1, 0, 0, 1}}, {{1, 1, 2, 0, 1}}}));
}

TEST(Indexing, points_need_an_array_per_axis_of_one_length) {
  EXPECT_FALSE(runs_of_points(Indices{Numbers({1}), kAll}, Indices{kAll}, {4, 6}, bytes_of({1})));
  EXPECT_FALSE(runs_of_points(Indices{Numbers({1, 2}), Numbers({1})}, Indices{kAll}, {4, 6}, bytes_of({2})));
  EXPECT_FALSE(runs_of_points(Indices{Numbers({})}, Indices{kAll}, {4}, bytes_of({0})));
}

TEST(Indexing, more_points_than_one_read_takes_are_not_supported) {
  const std::int64_t most = 1 << 16;
  std::vector<std::int64_t> rows, columns;
  for (std::int64_t i = 0; i <= most; ++i) {
    rows.push_back(i % 2);  // no two in a row
    columns.push_back(0);
  }
  EXPECT_FALSE(runs_of_points(Indices{Numbers(rows), Numbers(columns)}, Indices{kAll}, {2, 1}, bytes_of({most + 1})));
  rows.pop_back();
  columns.pop_back();
  EXPECT_TRUE(runs_of_points(Indices{Numbers(rows), Numbers(columns)}, Indices{kAll}, {2, 1}, bytes_of({most})));
}

}  // namespace
}  // namespace damacy
