// The cubed sphere for C++ users. Python's tests fold the positions of cells over the edges of a cube.
#include "damacy/halo/topology.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "damacy/core/error.h"

namespace damacy::halo {
namespace {

TEST(CubedSphere, tiles_meet_as_in_the_table_of_edges) {
  const CubedSphere sphere(1);
  EXPECT_EQ(sphere.neighbour(0, Side::east), (SphereLink{1, Side::east, Side::west, 0}));
  EXPECT_EQ(sphere.neighbour(0, Side::north), (SphereLink{2, Side::north, Side::west, 3}));
  EXPECT_EQ(sphere.neighbour(0, Side::west), (SphereLink{4, Side::west, Side::north, 1}));
  EXPECT_EQ(sphere.neighbour(0, Side::south), (SphereLink{5, Side::south, Side::north, 0}));
  EXPECT_EQ(sphere.neighbour(1, Side::east), (SphereLink{3, Side::east, Side::south, 1}));
  EXPECT_EQ(sphere.neighbour(1, Side::south), (SphereLink{5, Side::south, Side::east, 3}));
}

TEST(CubedSphere, ranks_of_one_tile_are_neighbours_without_a_turn) {
  const CubedSphere sphere(3);
  EXPECT_EQ(sphere.place(9 + 4), (SpherePlace{1, 1, 1}));
  EXPECT_EQ(sphere.neighbour(9 + 4, Side::northeast), (SphereLink{9 + 8, Side::northeast, Side::southwest, 0}));
}

TEST(CubedSphere, a_rank_has_no_peer_across_a_corner_of_the_cube) {
  EXPECT_EQ(CubedSphere(1).neighbour(0, Side::northeast), std::nullopt);
  EXPECT_EQ(CubedSphere(1).links(0).size(), 4U);
  EXPECT_EQ(CubedSphere(2).links(0).size(), 7U);
  EXPECT_EQ(CubedSphere(3).links(4).size(), 8U);
}

TEST(CubedSphere, every_link_has_its_counterpart_at_the_peer) {
  for (const std::int64_t layout : {1, 2, 3, 4}) {
    const CubedSphere sphere(layout);
    for (std::int64_t rank = 0; rank < sphere.size(); ++rank) {
      for (const SphereLink& link : sphere.links(rank)) {
        const SphereLink back{rank, link.peer_side, link.side, (4 - link.rotation) % 4};
        const auto theirs = sphere.links(link.peer);
        EXPECT_NE(std::find(theirs.begin(), theirs.end(), back), theirs.end())
            << "layout " << layout << ", rank " << rank << ", side " << static_cast<int>(link.side);
      }
    }
  }
}

TEST(CubedSphere, refuses_ranks_and_layouts_that_do_not_exist) {
  EXPECT_THROW(CubedSphere(0), Error);
  EXPECT_THROW(CubedSphere((std::int64_t{1} << 29) + 1), Error);
  EXPECT_THROW(CubedSphere(1).place(-1), Error);
  EXPECT_THROW(CubedSphere(1).neighbour(6, Side::west), Error);
  EXPECT_THROW(CubedSphere(1).links(6), Error);
}

}  // namespace
}  // namespace damacy::halo
