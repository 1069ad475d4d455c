// What of an array is read: by a Selection one index an axis, as in NumPy, resolved to stretches of an array's axes; by
// a PointSelection single elements. Reads nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "damacy/core/dims.h"

namespace damacy {

// As in Python: negative bounds count from the end, bounds outside the axis are cut, and a negative step counts down.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt;
  std::optional<std::int64_t> stop = std::nullopt;
  std::int64_t step = 1;
};

// The whole of all axes that have no index of their own; at most once. At the end it may be left out.
struct Ellipsis {};

// A number drops its axis from the result. Numbers, also of lists, count from the end if they are negative. A mask is
// as long as its axis.
using AxisIndex = std::variant<std::int64_t, Slice, std::vector<std::int64_t>, std::vector<bool>, Ellipsis>;

// The indices start, start + step, ... of an axis; `step` may be negative, and 0 repeats one index.
struct AxisStretch {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
  friend bool operator==(const AxisStretch&, const AxisStretch&) = default;
};

// A selection of an array of a known shape.
struct ResolvedSelection {
  std::vector<std::vector<AxisStretch>> axes;  // one an axis of the array
  Dims extents;                                // indices of each axis of the array
  Dims shape;                                  // of the result: the extents without the axes that numbers drop
  std::vector<bool> keeps;                     // by axis of the array: whether it is in the result
};

// Lists and masks select along their own axis, whatever the others are (numpy.ix_, zarr's `oindex`).
class Selection {
 public:
  Selection() = default;  // all of any array
  Selection(std::initializer_list<AxisIndex> axes) : axes_(axes) {}
  explicit Selection(std::vector<AxisIndex> axes) : axes_(std::move(axes)) {}

  // Throws Error(rank, "rank") for more indices than axes, and Error(inval, "aabb") for an index outside its axis, a
  // mask of another length, a step of 0 and a second Ellipsis.
  [[nodiscard]] ResolvedSelection of(const Dims& shape) const;
  // The shape of what it selects. Throws as of().
  [[nodiscard]] Dims shape_in(const Dims& shape) const { return of(shape).shape; }

 private:
  std::vector<AxisIndex> axes_;
};

// Coordinates inside an array of a known shape. The result has one axis.
struct ResolvedPoints {
  std::vector<std::vector<std::int64_t>> axes;  // of each axis of the array, one index for each point
  std::size_t count = 0;
};

// Single elements by their coordinates, as NumPy has it for several lists of indices and zarr for `vindex`.
class PointSelection {
 public:
  using Indices = std::vector<std::int64_t>;

  // One list for each axis: point i is at the i-th index of all lists. Lists of one index are repeated. Negative
  // numbers count from the end. Points may be repeated, and are in any order. (Selection takes braces with lists: here
  // they are in parentheses, PointSelection({{0, 7}, {-1}}).)
  explicit PointSelection(std::vector<Indices> axes) : axes_(std::move(axes)) {}
  // The elements where a mask of an array of this shape, row-major, is true. Throws Error(inval, "aabb") for a mask of
  // another size.
  static PointSelection of_mask(const std::vector<bool>& mask, const Dims& shape);

  // Throws Error(rank, "rank") unless there is one list for each of at least one axes, and Error(inval, "aabb") for
  // lists of different lengths and an index outside its axis.
  [[nodiscard]] ResolvedPoints of(const Dims& shape) const;
  // The shape of what it selects. Throws as of().
  [[nodiscard]] Dims shape_in(const Dims& shape) const { return {static_cast<std::int64_t>(of(shape).count)}; }

 private:
  std::vector<Indices> axes_;
};

}  // namespace damacy
