// Links: which boxes a rank exchanges with which peer. Any topology may make them. Integers only; knows no fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "damacy/halo/cartesian.h"
#include "damacy/halo/cubed_sphere.h"
#include "damacy/halo/side.h"

namespace damacy::halo {

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

// The cells beyond a cube corner belong to no rank. They stay unchanged, or are filled from the halo in x or in y.
enum class CornerFill : std::uint8_t { none, x, y };

// The links of one rank.
struct RankLinks {
  std::vector<Link> links;
  std::vector<std::string> dims;  // the decomposed dimensions
  // Sides to fill, which have no link.
  std::vector<Side> unowned;
  CornerFill fill = CornerFill::none;
};

[[nodiscard]] RankLinks links_of(const CubedSphere& sphere, std::int64_t rank, CornerFill fill = CornerFill::none);
[[nodiscard]] RankLinks links_of(const Cartesian& grid, std::int64_t rank, std::vector<std::string> dims,
                                 const Width& width);

}  // namespace damacy::halo
