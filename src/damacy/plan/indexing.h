// NumPy's rules for indexing, as far as zarr-python uses them: integers, slices, index arrays and masks of a chunk
// together with slices and arrays of the output become runs. A form that is not supported gives an empty answer, not an
// error. Knows no Python: entries are numbers and views of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/plan/selection.h"

namespace damacy {

// As in Python: negative numbers count from the end, and what lies outside is cut. A missing `stop` is INT64_MAX.
struct IndexSlice {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
};

// A view of an array of 8-byte signed integers, or of a mask of 1-byte booleans.
struct IndexArray {
  enum class Of : std::uint8_t { integers, mask };
  Of of = Of::integers;
  const std::byte* data = nullptr;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;  // bytes, signed
};

// One entry of an index; a number is an integer index, not counted from the end.
using IndexEntry = std::variant<std::int64_t, IndexSlice, IndexArray>;

// Where the elements of the output lie.
struct OutLayout {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // bytes, signed
  std::int64_t first = 0;             // byte of element (0, ..., 0), from the lowest
};

// out[to] = squeeze(chunk[from], drop_axes), as runs of each axis of the chunk.
[[nodiscard]] std::optional<std::vector<AxisRuns>> runs_of(std::span<const IndexEntry> from,
                                                           std::span<const IndexEntry> to, const Dims& chunk_shape,
                                                           const OutLayout& out,
                                                           std::span<const std::int64_t> drop_axes);

// The same if `from` has one array per axis that name single points, and the output has one axis: several selections,
// each of points that differ along the last axis only. Empty also for more selections than one read takes.
[[nodiscard]] std::optional<std::vector<std::vector<AxisRuns>>> runs_of_points(std::span<const IndexEntry> from,
                                                                               std::span<const IndexEntry> to,
                                                                               const Dims& chunk_shape,
                                                                               const OutLayout& out);

}  // namespace damacy
