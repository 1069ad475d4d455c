// The order of elements in memory. Python's tests of padding compare it with that of torch.
#include "damacy/halo/spec.h"

#include <gtest/gtest.h>

#include "damacy/core/error.h"

namespace damacy::halo {
namespace {

TEST(Layout, dense_strides_follow_the_order_of_dimensions) {
  EXPECT_EQ(c_strides({2, 3, 4}, 8), (Dims{96, 32, 8}));
  EXPECT_EQ(dense_strides({2, 3, 4, 5}, Axes{0, 2, 3, 1}), (Dims{60, 1, 15, 3}));
  EXPECT_EQ(in_bytes({60, -1}, 4), (Dims{240, -4}));
}

TEST(Layout, a_dimension_without_cells_counts_as_one) {
  EXPECT_EQ(c_strides({3, 0, 4}, 2), (Dims{8, 8, 2}));
  EXPECT_EQ(c_strides({}, 2), Dims{});
}

TEST(Layout, strides_beyond_64_bits_are_refused) {
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_THROW((void)c_strides({4, huge}), Error);
  EXPECT_THROW((void)in_bytes({huge}, 8), Error);
  EXPECT_THROW((void)bytes_of({huge}, 8), Error);
  EXPECT_EQ(bytes_of({3, 5}, 8), 120);
}

TEST(Layout, strides_of_dimensions_of_one_cell_do_not_matter) {
  EXPECT_TRUE(is_c_contiguous({1, 3}, {7, 8}, 8));
  EXPECT_TRUE(is_c_contiguous({5, 0}, {0, 8}, 8));
  EXPECT_FALSE(is_c_contiguous({3, 4}, {8, 24}, 8));
}

TEST(Layout, the_order_in_memory_is_that_of_the_strides) {
  EXPECT_EQ(memory_order({2, 3, 4}, {12, 4, 1}), (Axes{0, 1, 2}));
  EXPECT_EQ(memory_order({2, 3, 4}, {1, 2, 6}), (Axes{2, 1, 0}));
  EXPECT_EQ(memory_order({2, 3, 4, 5}, {60, 1, 15, 3}), (Axes{0, 2, 3, 1}));
  EXPECT_EQ(memory_order({1, 3, 4, 5}, {9, 1, 15, 3}), (Axes{0, 2, 3, 1}));
  EXPECT_EQ(memory_order({3, 1, 4}, {4, 99, 100}), (Axes{1, 2, 0}));  // one cell: outermost
  EXPECT_EQ(memory_order({3, 0}, {1, 3}), (Axes{0, 1}));
}

}  // namespace
}  // namespace damacy::halo
