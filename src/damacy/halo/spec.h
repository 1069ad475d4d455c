// Fields as a halo exchange sees them: dimension names, the layout of the whole allocation, the compute domain; and the
// boxes of cells that a rank sends and receives. Checks them. Also strides of dense and of padded arrays, and what
// quarter turns do to boxes. Integers and names only: knows no memory or peers.
//
// A message for Python users keeps its text: the bindings raise what is thrown here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/core/error.h"
#include "damacy/halo/topology.h"

namespace damacy::halo {

// Reason codes of errors, in Error::where().reason. Status::inval, unless the line says otherwise.
inline constexpr const char* kOutsideAllocation = "outside-allocation";  // a box extends beyond its allocation
inline constexpr const char* kMisuse = "halo-misuse";                    // wrong order of calls, or wrong counts
inline constexpr const char* kUnsupported = "halo-unsupported";          // a valid request that is not implemented
inline constexpr const char* kNoNccl = "no-nccl";                        // NCCL cannot be loaded
inline constexpr const char* kNcclFailed = "nccl";                       // a call of NCCL failed: Status::io

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

// Fields have the types before datetime64.
inline constexpr int kFieldDtypes = static_cast<int>(Dtype::datetime64);

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

// The compute cells of an allocation: from `origin` on, by default the first cell; by default all from there on.
// Throws as check().
struct Domain {
  Dims origin;
  Dims extent;
};
[[nodiscard]] Domain domain_of(std::span<const std::string> dims, const Dims& shape, const std::optional<Dims>& origin,
                               const std::optional<Dims>& extent);

// Throws Error(inval) unless each entry has one number for each dimension, and lengths are not negative.
void check_layout(const QuantityHaloSpec& spec);
// The same, and unless the compute domain is inside the allocation.
void check(const QuantityHaloSpec& spec);

// Throws Error(inval) if a side of a horizontal dimension has fewer than `n_points` cells beyond the compute domain.
void check_halo(std::span<const std::string> dims, const Dims& shape, const Domain& domain, std::int64_t n_points);

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

// -- the order of an array's elements in memory --

using Axes = std::vector<std::size_t>;  // the dimensions of an array, outermost in memory first

// Strides of a dense array, in units of `item`: the bytes of an element, or 1. A dimension without cells counts as one
// cell. Throws Error(inval) if they do not fit in 64 bits.
[[nodiscard]] Dims c_strides(const Dims& shape, std::int64_t item = 1);
[[nodiscard]] Dims dense_strides(const Dims& shape, std::span<const std::size_t> order, std::int64_t item = 1);

// Strides in elements as strides in bytes.
[[nodiscard]] Dims in_bytes(const Dims& strides, std::int64_t item);

// Of all elements. Throws Error(inval) if they do not fit in 64 bits.
[[nodiscard]] std::int64_t bytes_of(const Dims& shape, std::int64_t item);

// Whether an array is dense in C order. An array without cells is; else strides of dimensions with at most one cell
// mean nothing.
[[nodiscard]] bool is_c_contiguous(const Dims& shape, const Dims& strides, std::int64_t item);

// The order of an array's dimensions in memory. Where strides of dimensions with one cell leave a choice: C order, then
// channels last (for 4 and 5 dimensions), as in torch.
[[nodiscard]] Axes memory_order(const Dims& shape, const Dims& strides);

// -- padding --

// Of arrays with room for halos. Fill the interior, and exchange a field with this origin and extent:
//
//   const auto widths = ...;                                // cells before and after, for each dimension of the array
//   const Dims padded = padded_shape(dims, shape, widths);
//   const Dims strides = padded_strides(padded, shape, strides_of_array);   // the same order in memory
//   const Box inside = interior_of(padded, widths);
//
// Throws Error(inval) unless there is a width for each dimension of the shape.
[[nodiscard]] Dims padded_shape(std::span<const std::string> dims, const Dims& shape, std::span<const Cells> widths);
[[nodiscard]] Box interior_of(const Dims& padded, std::span<const Cells> widths);

// Of a dense padded array with its dimensions in the order of those of an array with `shape` and `strides`. In
// elements.
[[nodiscard]] Dims padded_strides(const Dims& padded, const Dims& shape, const Dims& strides);

// The boxes of padding beyond the ends of the domain. `decomposed`: names of the dimensions of `unowned`, which is
// Cartesian::unowned().
[[nodiscard]] std::vector<Box> edges_of(std::span<const std::string> dims, const Dims& padded,
                                        std::span<const std::string> decomposed, std::span<const Cells> unowned);

// -- rotation by quarter turns clockwise, as strides: no element is accessed --

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
