// Blocks of a grid for C++ users. Python's tests exchange the cells and compare with the whole.
#include "damacy/halo/cartesian.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "damacy/core/error.h"

namespace damacy::halo {
namespace {

TEST(Cartesian, two_blocks_send_their_ends_and_receive_halos) {
  const Cartesian grid({{{5, 4}}, {false}});
  EXPECT_EQ(grid.links(0, {{2, 2}}), (std::vector<GridLink>{{1, {1}, {}, CellBox{{5, 7}}, 0},  //
                                                            {1, {1}, CellBox{{3, 5}}, {}, 0}}));
}

TEST(Cartesian, a_lone_periodic_block_is_its_own_neighbour) {
  const Cartesian grid({{{4}}, {true}});
  EXPECT_EQ(grid.links(0, {{1, 0}}), (std::vector<GridLink>{{0, {-1}, {}, CellBox{{-1, 0}}, 0},  //
                                                            {0, {1}, CellBox{{3, 4}}, {}, 0}}));
}

TEST(Cartesian, halos_wider_than_a_block_come_from_several) {
  const Cartesian grid({{{4, 1, 4}}, {false}});
  EXPECT_EQ(grid.links(0, {{0, 3}}), (std::vector<GridLink>{{1, {1}, {}, CellBox{{4, 5}}, 0},  //
                                                            {2, {2}, {}, CellBox{{5, 7}}, 0}}));
}

TEST(Cartesian, corners_are_direct_or_missing_or_part_of_a_later_phase) {
  const auto boxes = [](Corners corners) {
    const auto links = Cartesian({{{2, 2}, {2, 2}}, {false, false}, corners}).links(0, {{1, 1}, {1, 1}});
    return std::count_if(links.begin(), links.end(), [](const GridLink& link) { return link.receive.has_value(); });
  };
  EXPECT_EQ(boxes(Corners::direct), 3);
  EXPECT_EQ(boxes(Corners::none), 2);
  const auto links = Cartesian({{{2, 2}, {2, 2}}, {false, false}, Corners::sequential}).links(0, {{1, 1}, {1, 1}});
  EXPECT_EQ(links[1], (GridLink{1, {0, 1}, {}, CellBox{{-1, 3}, {2, 3}}, 1}));
}

TEST(Cartesian, ranks_run_fastest_along_the_last_dimension) {
  const Cartesian grid({{{1, 1}, {1, 1, 1}}, {false, false}});
  EXPECT_EQ(grid.size(), 6);
  EXPECT_EQ(coordinates_of(grid.counts(), 5), (Integers{1, 2}));
  EXPECT_EQ(coordinates_of(grid.counts(), 1), (Integers{0, 1}));
  EXPECT_EQ(rank_at(grid.counts(), {1, 2}), 5);
}

TEST(Cartesian, refuses_grids_ranks_and_widths_that_do_not_exist) {
  EXPECT_THROW(Cartesian({{{}}, {false}}), Error);
  EXPECT_THROW(Cartesian({{{1, -1}}, {false}}), Error);
  EXPECT_THROW(Cartesian({{{1}}, {}}), Error);
  const Cartesian grid({{{1, 1}}, {false}});
  EXPECT_THROW(coordinates_of(grid.counts(), 2), Error);
  EXPECT_THROW(grid.links(0, {}), Error);
  EXPECT_THROW(grid.links(0, {{-1, 0}}), Error);
}

}  // namespace
}  // namespace damacy::halo
