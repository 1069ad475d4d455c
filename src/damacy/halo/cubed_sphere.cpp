// A corner is two steps over edges. The second direction is turned by what the first step turned.
#include "damacy/halo/topology.h"

#include <array>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::halo {
namespace {

constexpr std::int64_t kTiles = 6;
constexpr std::int64_t kMostLayout = std::int64_t{1} << 29;  // the number of ranks then fits in 64 bits

Side known_side(Ends ends) {
  const auto side = side_of(ends);
  if (!side) throw Error(Status::inval, formatted("no side of a rank is at ends {}, {}", ends.i, ends.j));
  return *side;
}

// After `quarters` turns counter-clockwise.
Side turned(Side side, int quarters) {
  Ends ends = ends_of(side);
  for (int i = 0; i < quarters; ++i) ends = {-ends.j, ends.i};
  return known_side(ends);
}

Side opposite(Side side) {
  return turned(side, 2);
}

struct TileEdge {
  std::int64_t step;  // to the next tile, mod 6
  int rotation;
};

// West, east, north, south; of even tiles, then of odd tiles.
constexpr std::array<std::array<TileEdge, 4>, 2> kCube{
    {{{{-2, 1}, {1, 0}, {2, 3}, {-1, 0}}}, {{{-1, 0}, {2, 1}, {1, 0}, {-2, 3}}}}};

std::int64_t modulo(std::int64_t value, std::int64_t n) {
  return ((value % n) + n) % n;
}

}  // namespace

struct CubedSphere::Crossing {
  std::int64_t peer;
  int rotation;
};

CubedSphere::CubedSphere(std::int64_t layout) : layout_(layout) {
  if (layout < 1 || layout > kMostLayout)
    throw Error(Status::inval, formatted("layout {}: expected 1 to {} ranks along a tile", layout, kMostLayout));
}

SpherePlace CubedSphere::place(std::int64_t rank) const {
  if (rank < 0 || rank >= size()) throw Error(Status::inval, formatted("rank {} of {}", rank, size()));
  const std::int64_t in_tile = rank % (layout_ * layout_);
  return {rank / (layout_ * layout_), in_tile / layout_, in_tile % layout_};
}

CubedSphere::Crossing CubedSphere::cross(std::int64_t rank, Side edge) const {
  auto [tile, row, col] = place(rank);
  const Ends ends = ends_of(edge);
  const std::int64_t next_row = row + ends.j, next_col = col + ends.i;
  if (0 <= next_row && next_row < layout_ && 0 <= next_col && next_col < layout_)
    return {(tile * layout_ + next_row) * layout_ + next_col, 0};
  const TileEdge over = kCube[static_cast<std::size_t>(tile % 2)].at(static_cast<std::size_t>(edge));
  const std::int64_t there = modulo(tile + over.step, kTiles);
  const SpherePlace peer = over.rotation != 0
                               ? SpherePlace{there, layout_ - 1 - col, layout_ - 1 - row}
                               : SpherePlace{there, modulo(next_row, layout_), modulo(next_col, layout_)};
  return {(peer.tile * layout_ + peer.row) * layout_ + peer.col, over.rotation};
}

bool CubedSphere::at_cube_corner(std::int64_t rank, Side x, Side y) const {
  const SpherePlace here = place(rank);
  const std::int64_t last = layout_ - 1;
  return here.col == (x == Side::east ? last : 0) && here.row == (y == Side::north ? last : 0);
}

std::optional<SphereLink> CubedSphere::neighbour(std::int64_t rank, Side side) const {
  const Ends ends = ends_of(side);
  if (ends.i == 0 || ends.j == 0) {
    const Crossing over = cross(rank, side);
    return SphereLink{over.peer, side, turned(opposite(side), over.rotation), over.rotation};
  }
  const Side x = known_side({ends.i, 0}), y = known_side({0, ends.j});
  if (at_cube_corner(rank, x, y)) return std::nullopt;
  // Crossing the edge of the tile first or last gives the same rank.
  const Crossing first = cross(rank, x);
  const Crossing second = cross(first.peer, turned(y, first.rotation));
  const int rotation = (first.rotation + second.rotation) % 4;
  return SphereLink{second.peer, side, turned(opposite(side), rotation), rotation};
}

std::vector<SphereLink> CubedSphere::links(std::int64_t rank) const {
  std::vector<SphereLink> out;
  for (int side = 0; side < kSides; ++side)
    if (const auto link = neighbour(rank, static_cast<Side>(side))) out.push_back(*link);
  return out;
}

}  // namespace damacy::halo
