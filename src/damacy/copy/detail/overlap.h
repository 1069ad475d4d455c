// Finds overlapping boxes of a plan's copies. Exact for boxes along the axes of one layout. Otherwise compares the
// addresses of all elements, if there are few. Knows layouts and offsets; not what the copies do.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "damacy/copy/slot_copy.h"

namespace damacy::copy::detail {

// Bytes between the first and the last that something touches, from a base.
struct Reach {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Throws Error(inval) if it does not fit in 63 bits. Extents are 0 or more; if one is 0, nothing is accessed.
Reach reach_of(std::int64_t offset, const Dims& extents, const Dims& strides, std::size_t element_bytes);

// Checks that no destination overlaps itself, another destination (unless both add), or any source. Returns the pairs
// of additions that overlap, each as indices in ascending order. `bases`: empty, if slots are different memories.
std::vector<std::pair<std::uint32_t, std::uint32_t>> find_overlaps(std::span<const Slot> slots,
                                                                   std::span<const Copy> copies,
                                                                   std::span<const std::uint64_t> bases);

}  // namespace damacy::copy::detail
