// How the axes of an array become those of a row: their order, and the axes that a sample exchanges or reverses. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "damacy/batch/array_spec.h"
#include "damacy/core/dims.h"
#include "damacy/zarr/array_info.h"

namespace damacy {

// The names of an array's stored axes: those that were given, else those of its metadata.
class AxisNames {
 public:
  AxisNames(const ArraySpec& spec, const DimensionNames& of_metadata, std::size_t rank);

  std::size_t rank() const noexcept { return names_.size(); }
  const std::optional<std::string>& operator[](std::size_t axis) const noexcept { return names_[axis]; }
  // The stored axis; throws Error(inval, "arguments") where there is none. `what`: of the setting, for the error.
  std::size_t find(const AxisKey& key, const char* what) const;
  std::string text() const;  // "'z', 'y', 'x'"
  // Throws Error(inval, "arguments") where no axis has a name.
  void require_names() const;

 private:
  DimensionNames names_;
};

// The axes of a row, in order.
class RowAxes {
 public:
  struct Axis {
    enum class Kind { stored, stack, added };
    Kind kind;
    std::size_t stored;  // the axis of the array
    std::int64_t extent;
    std::int64_t stride;  // elements
  };

  // `stack`: how many parts stand along a first axis; empty: the part is the row.
  RowAxes(const ArraySpec& spec, const AxisNames& names, const Dims& part_extents, std::optional<std::int64_t> stack);

  const std::vector<Axis>& axes() const noexcept { return axes_; }
  Dims extents() const noexcept;
  // In elements, of the stored axes; of the stack's.
  Dims stored_strides() const noexcept;
  std::int64_t stack_stride() const noexcept;
  // The place of an axis in the row; empty: it has none. Throws Error(inval, "arguments") where names are unknown.
  std::optional<std::size_t> find(const AxisKey& key) const;
  std::string name_of(std::size_t place) const;  // for errors
  std::string text() const { return names_.text(); }

 private:
  AxisNames names_;
  std::vector<Axis> axes_;
};

// Which axis comes to stand where, by keys: the same for all arrays of a sample.
struct AxisMove {
  AxisKey place;
  AxisKey axis;
};

// What a sample does to the axes of one row.
struct TurnedRow {
  Dims strides;               // elements, of the stored axes; negative: reversed
  std::int64_t stack_stride;  // of the stack's
  std::int64_t begin;         // elements from the first one of the row to where all positions are 0
};

// The moves of `transpose`, whose places are those of the row. Throws Error(inval, "arguments") for an axis that occurs
// twice or is not there.
[[nodiscard]] std::vector<AxisMove> moves_of(std::span<const AxisKey> transpose, const RowAxes& axes);
// Axes that the row lacks are left out. Throws Error(inval, "extents") for axes of unequal extents, and Error(inval,
// "arguments") for two keys of one axis.
[[nodiscard]] TurnedRow turned(const RowAxes& axes, std::span<const AxisMove> moves, std::span<const AxisKey> flip);

}  // namespace damacy
