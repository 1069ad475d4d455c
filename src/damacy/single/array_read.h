// Elements of an opened array along any indices of each axis: what Array::read does for a box. Reads, decodes and
// copies on threads that the process keeps for single reads, one a core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "damacy/zarr/array.h"

namespace damacy {

// The indices start, start + step, ... of an axis.
struct AxisStretch {
  std::int64_t start = 0;
  std::int64_t step = 1;  // >= 0; 0 repeats one index
  std::int64_t count = 0;
};

// Reads the elements whose index on each axis is in one of the axis's stretches, in their order, as Array::read does.
// Throws Error(inval, "aabb") for an index outside the array or a wrong size of `out`, and Error(inval, "limit") for
// more pieces than Limits::chunks_per_sample. After a stop it starts no more parts and throws Error(shutdown).
void read_stretches(const Array& array, std::span<const std::vector<AxisStretch>> axes, std::span<std::byte> out,
                    const std::stop_token& stop = {});

}  // namespace damacy
