// Fields as a halo exchange sees them: dimension names, the layout of the whole allocation, the compute domain; and the
// boxes of cells that a rank sends and receives. Checks them. Integers and names only: knows no memory or peers.
//
// A message for Python users keeps its text: the bindings raise what is thrown here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/core/error.h"
#include "damacy/halo/side.h"

namespace damacy::halo {

// Reason codes of errors, in Error::where().reason. All have Status::inval.
inline constexpr const char* kOutsideAllocation = "outside-allocation";  // a box extends beyond its allocation
inline constexpr const char* kMisuse = "halo-misuse";                    // wrong order of calls, or wrong counts
inline constexpr const char* kUnsupported = "halo-unsupported";          // a valid request that is not implemented

// ndsl: each block in C order of its dims, blocks end to end. native: each block begins at a multiple of 16 bytes and
// is written by decreasing stride of the field whose place it takes.
enum class Wire : std::uint8_t { ndsl, native };

// Indices of the I and the J dimension; -1 for a dimension that is missing.
struct HorizontalAxes {
  int i = -1;
  int j = -1;

  bool operator==(const HorizontalAxes&) const = default;
};

// Names: i, j and their staggered forms i_interface and j_interface are horizontal; all others are not.
[[nodiscard]] bool is_i_dim(std::string_view dim) noexcept;
[[nodiscard]] bool is_j_dim(std::string_view dim) noexcept;
[[nodiscard]] bool is_staggered(std::string_view dim) noexcept;         // ends in _interface
[[nodiscard]] std::string_view kind_of(std::string_view dim) noexcept;  // without _interface
[[nodiscard]] HorizontalAxes horizontal_axes(std::span<const std::string> dims) noexcept;
// "('j', 'i')": as Python writes a tuple.
[[nodiscard]] std::string names_text(std::span<const std::string> dims);

// The layout of a field. `shape` is the allocation, halo included; strides are in bytes, signed.
struct QuantityHaloSpec {
  std::vector<std::string> dims;
  Dims shape;
  Dims strides;
  Dims origin;  // first compute cell
  Dims extent;  // compute cells
  Dtype dtype = Dtype::f64;

  bool operator==(const QuantityHaloSpec&) const = default;
};

// A dense field in C order whose horizontal dimensions have `halo` cells on both sides of `extent`.
[[nodiscard]] QuantityHaloSpec dense_field(std::vector<std::string> dims, const Dims& extent, std::int64_t halo,
                                           Dtype dtype = Dtype::f64);

// Throws Error(inval) unless each entry has one number for each dimension, and lengths are not negative.
void check_layout(const QuantityHaloSpec& spec);
// The same, and unless the compute domain is inside the allocation.
void check(const QuantityHaloSpec& spec);

[[nodiscard]] Box compute_domain(const QuantityHaloSpec& spec);

// The cells to send (`interior`) or to receive at a side, absolute in the allocation. Staggered dimensions leave out
// the shared row. Throws Error(inval), with kOutsideAllocation for cells that are not allocated.
[[nodiscard]] Box boundary_slice(const QuantityHaloSpec& spec, Side side, std::int64_t n_halo, bool interior);
// kOutsideAllocation if [start, stop) is not in [0, length).
void check_inside(std::string_view dim, std::int64_t start, std::int64_t stop, std::int64_t length);

// Ends of a box along one dimension as Python has them: missing, or negative to count from the end.
struct Slice {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
};

// The box of these slices. `name` names it in errors, which name the dimension too.
[[nodiscard]] Box resolve_box(std::span<const Slice> slices, const Dims& shape, std::span<const std::string> dims,
                              std::string_view name);

// One exchange of one quantity with one peer. Boxes are absolute in the allocation.
struct HaloExchangeSpec {
  QuantityHaloSpec quantity;
  Box pack;
  int rotation = 0;  // clockwise quarter turns of the data on its way, any integer; the packer undoes them
  Box unpack;
};

// Throws Error(inval) as resolve_box(), for a stride of 0 in an unpack box, or a rotation of more than one I or J dim.
void check(const HaloExchangeSpec& spec);

// "cannot negate uint8, which rotating a vector needs": Error(dtype) if vectors of this type cannot be rotated.
void check_negatable(Dtype dtype);

}  // namespace damacy::halo
