#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <random>
#include <vector>

#include "damacy/copy/block_copy.h"

namespace damacy {
namespace {

struct Axis {
  std::int64_t extent, src, dst;
  friend bool operator==(const Axis&, const Axis&) = default;
};

void PrintTo(const Axis& a, std::ostream* os) {
  *os << "{" << a.extent << ", " << a.src << ", " << a.dst << "}";
}

BlockCopy make_copy(std::initializer_list<Axis> axes, std::int64_t src = 0, std::int64_t dst = 0) {
  BlockCopy copy;
  copy.src_offset = src;
  copy.dst_offset = dst;
  for (const Axis& a : axes) copy.axes[copy.rank++] = {a.extent, a.src, a.dst};
  return copy;
}

std::vector<Axis> normal_axes(BlockCopy copy) {
  normalise(copy);
  std::vector<Axis> axes;
  for (const CopyAxis& a : copy.used()) axes.push_back({a.extent, a.src_stride, a.dst_stride});
  return axes;
}

TEST(Normalise, drops_axes_of_one_element) {
  EXPECT_EQ(normal_axes(make_copy({{1, 7, 7}, {4, 2, 8}, {1, -3, 0}})), (std::vector<Axis>{{4, 2, 8}}));
  EXPECT_EQ(normal_axes(make_copy({{1, 7, 7}})), std::vector<Axis>{});
}

TEST(Normalise, merges_axes_that_run_on_in_both_sides) {
  EXPECT_EQ(normal_axes(make_copy({{4, 60, 120}, {5, 12, 24}, {6, 2, 4}})), (std::vector<Axis>{{120, 2, 4}}));
  EXPECT_EQ(normal_axes(make_copy({{4, 60, 200}, {5, 12, 24}, {6, 2, 4}})),
            (std::vector<Axis>{{4, 60, 200}, {30, 2, 4}}));
  EXPECT_EQ(normal_axes(make_copy({{4, 60, 120}, {5, 10, 24}, {6, 2, 4}})),
            (std::vector<Axis>{{4, 60, 120}, {5, 10, 24}, {6, 2, 4}}));
}

TEST(Normalise, merges_axes_over_which_the_source_stands_still) {
  EXPECT_EQ(normal_axes(make_copy({{4, 0, 12}, {6, 0, 2}})), (std::vector<Axis>{{24, 0, 2}}));
}

TEST(Normalise, puts_the_destination_in_order) {
  EXPECT_EQ(normal_axes(make_copy({{3, 40, 1}, {4, 10, 3}, {5, 1, 12}})),
            (std::vector<Axis>{{5, 1, 12}, {4, 10, 3}, {3, 40, 1}}));
}

TEST(Normalise, walks_a_turned_destination_from_its_other_end) {
  BlockCopy copy = make_copy({{5, 2, -4}}, /*src=*/100, /*dst=*/16);
  normalise(copy);
  EXPECT_EQ(copy.src_offset, 108);
  EXPECT_EQ(copy.dst_offset, 0);
  EXPECT_EQ(normal_axes(copy), (std::vector<Axis>{{5, -2, 4}}));
}

TEST(Normalise, gives_an_empty_copy_one_empty_axis) {
  BlockCopy copy = make_copy({{3, 8, 8}, {0, 2, -4}, {1, 2, 4}});
  normalise(copy);
  ASSERT_EQ(copy.rank, 1u);
  EXPECT_EQ(copy.axes[0].extent, 0);
}

TEST(Normalise, leaves_an_axis_alone_whose_other_end_is_out_of_range) {
  const auto far = std::int64_t{1} << 62;
  EXPECT_EQ(normal_axes(make_copy({{5, 1, -far}})), (std::vector<Axis>{{5, 1, -far}}));
  EXPECT_EQ(normal_axes(make_copy({{2, INT64_MIN, -1}})), (std::vector<Axis>{{2, INT64_MIN, -1}}));
  EXPECT_EQ(normal_axes(make_copy({{far, 0, 0}, {far, 0, 0}})), (std::vector<Axis>{{far, 0, 0}, {far, 0, 0}}));
}

// Which source byte goes to which destination byte.
void add_moves(const BlockCopy& copy, std::size_t axis, std::int64_t src, std::int64_t dst,
               std::map<std::int64_t, std::int64_t>& moves) {
  if (axis == copy.rank) {
    moves[dst] = src;
    return;
  }
  const CopyAxis& a = copy.axes[axis];
  for (std::int64_t i = 0; i < a.extent; ++i)
    add_moves(copy, axis + 1, src + i * a.src_stride, dst + i * a.dst_stride, moves);
}

std::map<std::int64_t, std::int64_t> moves_of(const BlockCopy& copy) {
  std::map<std::int64_t, std::int64_t> moves;
  add_moves(copy, 0, copy.src_offset, copy.dst_offset, moves);
  return moves;
}

TEST(Normalise, keeps_every_element_and_its_places) {
  std::mt19937 random(5);
  const auto below = [&](int end) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(end)); };
  for (int i = 0; i < 3000; ++i) {
    BlockCopy copy;
    copy.rank = static_cast<std::uint32_t>(below(6));
    std::int64_t dst = 1 + below(2);
    std::int64_t src = 1 + below(2);
    for (CopyAxis& a : copy.used()) {
      a = {below(20) == 0 ? 0 : 1 + below(4),
           below(4) == 0   ? -src
           : below(6) == 0 ? 0
                           : src,
           below(4) == 0 ? -dst : dst};
      dst = dst * std::max<std::int64_t>(a.extent, 1) + below(2);
      src = src * std::max<std::int64_t>(a.extent, 1) + below(2);
    }
    std::shuffle(copy.used().begin(), copy.used().end(), random);
    BlockCopy normal = copy;
    normalise(normal);
    ASSERT_EQ(moves_of(normal), moves_of(copy)) << "case " << i;
    for (std::size_t k = 0; k < normal.rank; ++k) {
      if (normal.axes[0].extent == 0) break;
      ASSERT_GT(normal.axes[k].extent, 1);
      ASSERT_GT(normal.axes[k].dst_stride, 0);
      ASSERT_GE(normal.axes[k > 0 ? k - 1 : 0].dst_stride, normal.axes[k].dst_stride);
    }
  }
}

}  // namespace
}  // namespace damacy
