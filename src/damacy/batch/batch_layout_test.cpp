// Where the arrays of a batch lie: against sums written out here.
#include "damacy/batch/batch_layout.h"

#include <limits>

#include <gtest/gtest.h>

#include "damacy/core/error.h"

namespace damacy {
namespace {

TEST(BatchLayout, begins_each_array_at_a_multiple_of_256) {
  Config config;
  config.batch_size = 3;
  config.arrays = {{"b", {Dtype::u8}}};
  const std::vector<BatchLayout::First> first{{"a", {5, 7}, 1, false}, {"b", {3}, 2, true}, {"c", {}, 1, false}};
  const BatchLayout layout(config, first);
  EXPECT_EQ(layout.arrays()[0].begin, 0);
  EXPECT_EQ(layout.arrays()[1].begin, 512);  // 3 * 35 * 4 = 420
  EXPECT_EQ(layout.arrays()[2].begin, 768);
  EXPECT_EQ(layout.slot_bytes(), 1024);
  EXPECT_EQ(layout.sample_bytes(), 35 * 4 + 2 * 3 + 4);
  EXPECT_EQ(layout.arrays()[1].extents, (Dims{2, 3}));
  ASSERT_EQ(layout.parts().size(), 4u);
  EXPECT_EQ(layout.row_of(9), 2u);
  EXPECT_EQ(layout.begin_of(4), 140);          // row 1 of a
  EXPECT_EQ(layout.begin_of(4 + 2), 512 + 9);  // row 1 of b, part 1
  EXPECT_EQ(layout.begin_of(8 + 3), 768 + 8);
  EXPECT_EQ(layout.bytes_of(2), 768 + 8);
}

TEST(BatchLayout, refuses_slots_beyond_64_bits) {
  Config config;
  config.batch_size = 1;
  const std::vector<BatchLayout::First> far{{"a", {std::int64_t{1} << 60}, 1, false},
                                            {"b", {std::int64_t{1} << 60}, 1, false}};
  EXPECT_THROW(BatchLayout(config, far), Error);
  EXPECT_THROW(BatchLayout(config, std::vector<BatchLayout::First>{{"a", {1 << 30, 1 << 30}, 32, true}}), Error);
}

}  // namespace
}  // namespace damacy
