// Room for halos around arrays.
#include "damacy/halo/spec.h"

#include <gtest/gtest.h>

#include "support/error_of.h"

namespace damacy::halo {
namespace {

const std::vector<std::string> kDims{"n", "c", "h", "w"};
const std::vector<Cells> kWidths{{0, 0}, {0, 0}, {1, 2}, {3, 0}};

TEST(Padding, is_before_and_after_an_arrays_own_cells) {
  const Dims padded = padded_shape(kDims, {2, 3, 4, 5}, kWidths);
  EXPECT_EQ(padded, (Dims{2, 3, 7, 8}));
  EXPECT_EQ(interior_of(padded, kWidths), (Box{{0, 0, 1, 3}, {2, 3, 5, 8}}));
}

TEST(Padding, keeps_the_order_of_dimensions_in_memory) {
  EXPECT_EQ(padded_strides({2, 3, 7, 8}, {2, 3, 4, 5}, {60, 20, 5, 1}), (Dims{168, 56, 8, 1}));
  EXPECT_EQ(padded_strides({2, 3, 7, 8}, {2, 3, 4, 5}, {60, 1, 15, 3}), (Dims{168, 1, 24, 3}));
}

TEST(Padding, beyond_the_ends_of_the_domain_has_a_box_for_each_side) {
  const std::vector<std::string> decomposed{"w", "h"};
  const std::vector<Cells> unowned{{3, 0}, {0, 2}};
  const auto edges = edges_of(kDims, {2, 3, 7, 8}, decomposed, unowned);
  EXPECT_EQ(edges, (std::vector<Box>{{{0, 0, 0, 0}, {2, 3, 7, 3}}, {{0, 0, 5, 0}, {2, 3, 7, 8}}}));
  EXPECT_THROW((void)edges_of(kDims, {2, 3, 7, 8}, std::vector<std::string>{"d"}, unowned), Error);
}

TEST(Padding, of_other_dimensions_or_too_many_cells_is_refused) {
  EXPECT_EQ(error_of([] { (void)padded_shape(kDims, {4, 5}, kWidths); }).message(),
            "expected a tensor with dims ('n', 'c', 'h', 'w') (got shape (4, 5))");
  const std::vector<std::string> dims{"i"};
  const std::vector<Cells> huge{{std::int64_t{1} << 62, std::int64_t{1} << 62}};
  EXPECT_THROW((void)padded_shape(dims, {4}, huge), Error);
}

}  // namespace
}  // namespace damacy::halo
