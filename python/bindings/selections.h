// From what zarr-python passes as selections to runs: ints, slices, index arrays and masks of a chunk, with slices and
// arrays of the output. Knows NumPy's rules for them; a form it does not know is an empty answer, not an error.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bindings.h"
#include "damacy/core/dims.h"
#include "damacy/plan/selection.h"

namespace damacy::python {

// Where the elements of the output lie.
struct OutLayout {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // bytes, signed
  std::int64_t first = 0;             // byte of element (0, ..., 0), from the lowest
};

// out[out_selection] = squeeze(chunk[chunk_selection], drop_axes), as runs of each axis of the chunk.
std::optional<std::vector<AxisRuns>> runs_of(nb::handle chunk_selection, nb::handle out_selection,
                                             const Dims& chunk_shape, const OutLayout& out,
                                             const std::vector<std::int64_t>& drop_axes);

// The same where an array of each axis names points one by one, and the output has one axis: several selections, each
// of points that differ along the last axis only. Empty also for more of them than a read takes in at once.
std::optional<std::vector<std::vector<AxisRuns>>> runs_of_points(nb::handle chunk_selection, nb::handle out_selection,
                                                                 const Dims& chunk_shape, const OutLayout& out);

}  // namespace damacy::python
