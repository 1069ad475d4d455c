// Packs strided elements and unpacks them again. Knows bytes per element and strides; changes no bit.
#pragma once

#include <cstddef>

namespace damacy::copy_detail {

// A rectangle of elements: packed on one side, anywhere on the other.
struct Tile {
  std::byte* dst;
  const std::byte* src;
  std::size_t count;  // elements in a row; packed rows follow each other
  std::size_t rows;
  std::ptrdiff_t step;   // bytes from element to element, on the side that is not packed
  std::ptrdiff_t pitch;  // bytes from row to row there
};

using TileKernel = void (*)(const Tile&);

// Packs the destination. Fast where pitch == bytes (a transpose: squares are turned in registers) and where
// step == -bytes (a flip).
[[nodiscard]] TileKernel gather_kernel(std::size_t bytes, std::ptrdiff_t step, std::ptrdiff_t pitch) noexcept;

// Reads a packed source.
[[nodiscard]] TileKernel scatter_kernel(std::size_t bytes) noexcept;

}  // namespace damacy::copy_detail
