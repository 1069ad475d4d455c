// Rotation by quarter turns clockwise, as strides: no element is accessed. Knows offsets, extents and strides; not
// boxes or wires.
#pragma once

#include <cstdint>
#include <utility>

#include "damacy/core/dims.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

// A box as an offset with extents and strides, one an axis.
struct View {
  std::int64_t offset = 0;
  Dims extents;
  Dims strides;
};

// What a rotation does to the axes: first flips, then perhaps exchanges the two.
struct Turn {
  bool flips_i = false;
  bool flips_j = false;
  bool swaps = false;
};

[[nodiscard]] int modulo_4(std::int64_t quarters) noexcept;
// `quarters`: any integer. With one horizontal axis only, it is flipped or not; with none, nothing happens.
[[nodiscard]] Turn turn_of(HorizontalAxes axes, std::int64_t quarters) noexcept;
[[nodiscard]] View turned(View view, HorizontalAxes axes, std::int64_t quarters);

// The component that a slot of a rotated vector reads, x or y, and whether its sign changes.
struct Component {
  bool from_y = false;
  bool negate = false;
};

// The components for the x and the y slot of a vector that is rotated by `quarters`.
[[nodiscard]] std::pair<Component, Component> rotated_components(std::int64_t quarters) noexcept;

}  // namespace damacy::halo
