// Blocks of a grid for C++ users. Python's tests exchange the cells and compare with the whole.
#include "damacy/halo/topology.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/halo/spec.h"
#include "support/error_of.h"

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

TEST(Cartesian, cells_beyond_the_ends_of_the_domain_have_no_owner) {
  const auto unowned = [](bool periodic, std::int64_t rank, Cells width) {
    return Cartesian({{{2, 3, 1}}, {periodic}}).unowned(rank, {width}).at(0);
  };
  EXPECT_EQ(unowned(false, 0, {1, 1}), (Cells{1, 0}));
  EXPECT_EQ(unowned(false, 1, {3, 3}), (Cells{1, 2}));  // wider than the blocks around it
  EXPECT_EQ(unowned(false, 2, {2, 4}), (Cells{0, 4}));
  EXPECT_EQ(unowned(true, 0, {9, 9}), (Cells{0, 0}));
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

TEST(Widths, are_for_each_dimension_and_errors_show_them) {
  const auto message = [](const Width& width, std::size_t count) {
    return error_of([&] { (void)widths_of(width, count); }).message();
  };
  EXPECT_EQ(widths_of(std::int64_t{2}, 2), (std::vector<Cells>{{2, 2}, {2, 2}}));
  EXPECT_EQ(widths_of(std::vector<Cells>{{1, 0}}, 1), (std::vector<Cells>{{1, 0}}));
  EXPECT_EQ(message(std::int64_t{-1}, 2), "width -1: expected cells, or a number or a pair for each of 2 dimensions");
  EXPECT_EQ(message(std::vector<Cells>{{1, 1}, {0, 2}}, 1),
            "width (1, (0, 2)): expected cells, or a number or a pair for each of 1 dimensions");
  EXPECT_EQ(message(std::vector<Cells>{{3, -1}}, 1),
            "width ((3, -1),): expected cells, or a number or a pair for each of 1 dimensions");
}

TEST(Cartesian, sizes_are_of_one_block_or_of_each) {
  const std::vector<BlockSizes> sizes{std::int64_t{5}, Integers{3, 4}};
  EXPECT_EQ(sizes_of(sizes, {3, 2}), (std::vector<Integers>{{5, 5, 5}, {3, 4}}));
  EXPECT_THROW((void)sizes_of(sizes, {3, 3}), Error);
  EXPECT_THROW((void)sizes_of(sizes, {3}), Error);
  EXPECT_THROW((void)sizes_of(std::vector<BlockSizes>{std::int64_t{-1}}, {2}), Error);
  EXPECT_EQ(ranks_of({3, 2}), 6);
  EXPECT_THROW((void)ranks_of({3, 0}), Error);
}

TEST(Links, have_their_counterparts_at_the_peers) {
  std::vector<RankLinks> ranks;
  for (std::int64_t rank = 0; rank < 24; ++rank) ranks.push_back(links_of(CubedSphere(2), rank));
  EXPECT_NO_THROW(check_symmetric(ranks));
  const Link link = ranks[3].links[0];
  ranks[3].links[0].rotation += 1;
  const Error error = error_of([&] { check_symmetric(ranks); });
  EXPECT_NE(error.message().find("has no counterpart at rank"), std::string::npos) << error.message();
  EXPECT_EQ(error.where().reason, kMisuse);
  ranks[3].links[0] = link;
  EXPECT_NO_THROW(check_symmetric(ranks));
}

}  // namespace
}  // namespace damacy::halo
