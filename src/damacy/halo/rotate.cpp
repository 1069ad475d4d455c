// Rotations by 1 and 2 flip the I axis, rotations by 2 and 3 the J axis; odd ones then exchange the axes.
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

void flip(View& view, std::size_t axis) {
  if (view.extents[axis] > 0) view.offset += (view.extents[axis] - 1) * view.strides[axis];
  view.strides[axis] = -view.strides[axis];
}

}  // namespace

int modulo_4(std::int64_t quarters) noexcept {
  return static_cast<int>(((quarters % 4) + 4) % 4);
}

Turn turn_of(HorizontalAxes axes, std::int64_t quarters) noexcept {
  const int turns = modulo_4(quarters);
  if (turns == 0) return {};
  return {axes.i >= 0 && turns != 3, axes.j >= 0 && turns != 1, turns % 2 == 1 && axes.i >= 0 && axes.j >= 0};
}

View turned(View view, HorizontalAxes axes, std::int64_t quarters) {
  const Turn turn = turn_of(axes, quarters);
  const auto i = static_cast<std::size_t>(axes.i), j = static_cast<std::size_t>(axes.j);
  if (turn.flips_i) flip(view, i);
  if (turn.flips_j) flip(view, j);
  if (turn.swaps) {
    std::swap(view.extents[i], view.extents[j]);
    std::swap(view.strides[i], view.strides[j]);
  }
  return view;
}

std::pair<Component, Component> rotated_components(std::int64_t quarters) noexcept {
  switch (modulo_4(quarters)) {
    case 1:
      return {{true, false}, {false, true}};
    case 2:
      return {{false, true}, {true, true}};
    case 3:
      return {{true, true}, {false, false}};
    default:
      return {{false, false}, {true, false}};
  }
}

}  // namespace damacy::halo
