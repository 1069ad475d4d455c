// The ranks of a cubed sphere: which rank touches which side of which other rank, and by how many quarter turns their
// axes differ. Integers only. Knows no fields, boxes or messages.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "damacy/halo/side.h"

namespace damacy::halo {

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

// Six tiles of layout x layout ranks. rank = tile layout^2 + row layout + col.
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

}  // namespace damacy::halo
