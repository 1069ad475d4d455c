// The sides and corners of a rank's block in the horizontal plane. Knows their numbers and which ends of the I and the
// J dimension they touch; not ranks, boxes or fields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace damacy::halo {

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

}  // namespace damacy::halo
