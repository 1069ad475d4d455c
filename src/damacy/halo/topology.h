// The ranks of a halo exchange and what they share. Two topologies, a cubed sphere and a grid of blocks; and links:
// which boxes a rank exchanges with which peer, which any topology may make. Integers only. Knows no fields or
// messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "damacy/core/error.h"

namespace damacy::halo {

// -- the sides of a block in the horizontal plane --

// The first four are edges, the others corners. The order is that of the segments of a message.
enum class Side : std::uint8_t { west, east, north, south, northwest, northeast, southwest, southeast };

constexpr int kSides = 8;

// The ends of the I and the J dimension that a side touches: -1 start, 1 end, 0 neither.
struct Ends {
  int i = 0;
  int j = 0;

  bool operator==(const Ends&) const = default;
};

constexpr Ends ends_of(Side side) {
  constexpr std::array<Ends, kSides> kEnds{{{-1, 0}, {1, 0}, {0, 1}, {0, -1}, {-1, 1}, {1, 1}, {-1, -1}, {1, -1}}};
  return kEnds.at(static_cast<std::size_t>(side));
}

// Empty for ends {0, 0}, which are of no side.
constexpr std::optional<Side> side_of(Ends ends) {
  for (int side = 0; side < kSides; ++side)
    if (ends_of(static_cast<Side>(side)) == ends) return static_cast<Side>(side);
  return std::nullopt;
}

// -- the cubed sphere --

// What two ranks share, seen from one of them.
struct SphereLink {
  std::int64_t peer = 0;
  Side side = Side::west;       // of this rank, where it touches the peer
  Side peer_side = Side::west;  // of the peer, where it touches this rank
  int rotation = 0;             // clockwise quarter turns of data on the way to the peer, 0 to 3

  bool operator==(const SphereLink&) const = default;
};

struct SpherePlace {
  std::int64_t tile = 0;
  std::int64_t row = 0;  // along j
  std::int64_t col = 0;  // along i

  bool operator==(const SpherePlace&) const = default;
};

// Six tiles of layout x layout ranks. rank = tile layout^2 + row layout + col. Which rank touches which side of which
// other rank, and by how many quarter turns their axes differ.
class CubedSphere {
 public:
  // Throws Error(inval) if `layout` is not 1 to 2^29.
  explicit CubedSphere(std::int64_t layout);

  std::int64_t size() const noexcept { return 6 * layout_ * layout_; }

  // All throw Error(inval) "rank R of N" for a rank that does not exist.
  SpherePlace place(std::int64_t rank) const;
  // Empty for a corner of a rank at the corner of its tile: three tiles meet there, and no rank owns the cells beyond.
  std::optional<SphereLink> neighbour(std::int64_t rank, Side side) const;
  // Of all sides that have a peer, in the order of the sides.
  std::vector<SphereLink> links(std::int64_t rank) const;

 private:
  struct Crossing;
  Crossing cross(std::int64_t rank, Side edge) const;
  bool at_cube_corner(std::int64_t rank, Side x, Side y) const;

  std::int64_t layout_;
};

// -- a grid of blocks --

using Integers = std::vector<std::int64_t>;  // one for each decomposed dimension

struct Cells {
  std::int64_t start = 0;
  std::int64_t stop = 0;

  bool operator==(const Cells&) const = default;
};

using CellBox = std::vector<Cells>;  // one for each decomposed dimension

// A box that is sent, or one that is received.
struct GridLink {
  std::int64_t peer = 0;
  Integers side;  // distance in blocks from here to the peer's image; the peer's own side is its opposite
  std::optional<CellBox> send;
  std::optional<CellBox> receive;
  int phase = 0;

  bool operator==(const GridLink&) const = default;
};

// Of ranks that run fastest along the last dimension, `counts` of them along each. coordinates_of() throws Error(inval)
// "rank R of N"; it and ranks_of() also for counts below 1, or more than 2^60 ranks.
std::int64_t ranks_of(const Integers& counts);
Integers coordinates_of(const Integers& counts, std::int64_t rank);
std::int64_t rank_at(const Integers& counts, const Integers& coordinates);

// sequential: one dimension after the other, in phases. Later phases also send the halos that earlier phases filled.
enum class Corners : std::uint8_t { direct, none, sequential };

// Cells along a dimension: of each block, or of one block if all have the same.
using BlockSizes = std::variant<std::int64_t, Integers>;

// For Grid::sizes. Throws Error(inval) unless there are as many sizes as ranks along each dimension.
[[nodiscard]] std::vector<Integers> sizes_of(std::span<const BlockSizes> sizes, const Integers& counts);

struct Grid {
  std::vector<Integers> sizes;  // cells of each block along each dimension: as many blocks as ranks
  std::vector<bool> periodic;
  Corners corners = Corners::direct;
};

// The ranks of a grid of blocks: which cells a rank gets from, and sends to, which other rank. Cells are relative to
// the first cell of the rank's block, so ghost cells are negative or past the block.
class Cartesian {
 public:
  // Throws Error(inval) for a dimension without blocks, negative sizes, or more than 2^60 cells or ranks.
  explicit Cartesian(Grid grid);

  std::int64_t size() const noexcept { return size_; }
  const Integers& counts() const noexcept { return counts_; }  // blocks along each dimension

  Integers block(std::int64_t rank) const;  // cells of the rank's block along each dimension
  // How many of the halo cells before and after the block are beyond the ends of the domain, and have no owner, for
  // each dimension.
  std::vector<Cells> unowned(std::int64_t rank, const std::vector<Cells>& widths) const;
  // `widths`: halo cells before and after the block, for each dimension. Boxes that are received come first.
  std::vector<GridLink> links(std::int64_t rank, const std::vector<Cells>& widths) const;

 private:
  struct Piece;
  struct Ghost;
  void check(const std::vector<Cells>& widths) const;
  std::int64_t cells(std::size_t axis, std::int64_t at) const;
  std::int64_t start(std::size_t axis, std::int64_t at) const;
  std::vector<Piece> pieces(std::size_t axis, std::int64_t at, Cells wanted) const;
  bool reaches(std::size_t axis, std::int64_t from, std::int64_t to, Cells width) const;
  std::int64_t shift(std::size_t axis, std::int64_t there, std::int64_t here, std::int64_t blocks) const;
  std::vector<Ghost> ghosts(const Integers& here, const std::vector<Cells>& widths) const;
  void add_region(std::vector<Ghost>& out, const Integers& here, const Integers& touched,
                  const std::vector<Cells>& widths, std::optional<std::size_t> phase) const;

  Grid grid_;
  std::vector<Integers> starts_;  // of the blocks, then the number of cells
  Integers counts_;
  std::int64_t size_ = 1;
};

// -- links --

// A number of Side, or offsets of blocks along each decomposed dimension.
using LinkSide = std::variant<std::int64_t, Integers>;

// One box that a rank sends to `peer`, and one that it receives from it. `side`: the side of this rank's block that has
// the boxes. The sender's side orders the segments of a message. Boxes count from the first cell of the block along the
// decomposed dimensions. If both are missing, they follow from the side, as in boundary_slice().
struct Link {
  std::int64_t peer = 0;
  LinkSide side;
  LinkSide peer_side;
  std::int64_t rotation = 0;  // clockwise quarter turns of the data on the way to the peer, any integer
  std::optional<CellBox> send;
  std::optional<CellBox> receive;
  int phase = 0;
};

// Cells of halo on all sides; or before and after the block, for each decomposed dimension.
using Width = std::variant<std::int64_t, std::vector<Cells>>;

// Before and after the block, for each of `count` dimensions. Throws wrong_width() for other numbers of dimensions, and
// for negative cells.
[[nodiscard]] std::vector<Cells> widths_of(const Width& width, std::size_t count);
// `width`: as the caller gave it.
[[nodiscard]] Error wrong_width(std::string_view width, std::size_t count);

// The cells beyond a cube corner belong to no rank. They stay unchanged, or are filled from the halo in x or in y.
enum class CornerFill : std::uint8_t { none, x, y };

// The links of one rank.
struct RankLinks {
  std::vector<Link> links;
  std::vector<std::string> dims;  // the decomposed dimensions
  // Sides to fill, which have no link.
  std::vector<Side> unowned;
  CornerFill fill = CornerFill::none;
  std::optional<Integers> block = std::nullopt;  // cells along `dims` that all fields must have
};

[[nodiscard]] RankLinks links_of(const CubedSphere& sphere, std::int64_t rank, CornerFill fill = CornerFill::none);
[[nodiscard]] RankLinks links_of(const Cartesian& grid, std::int64_t rank, std::vector<std::string> dims,
                                 const Width& width);

// `ranks`: the links of all ranks. Throws Error(inval, kMisuse) unless each link has its counterpart at the peer, with
// the opposite rotation.
void check_symmetric(std::span<const RankLinks> ranks);

}  // namespace damacy::halo
