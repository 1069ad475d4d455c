// Boxes of sides, and the checks of descriptions that users give.
#include "damacy/halo/spec.h"

#include <algorithm>
#include <array>

#include "damacy/core/formatted.h"

namespace damacy::halo {
namespace {

constexpr std::string_view kStaggered = "_interface";
constexpr std::int64_t kMostCells = std::int64_t{1} << 60;  // sums of a few fit in 64 bits

bool is_cell(std::int64_t n) {
  return n >= -kMostCells && n <= kMostCells;
}

std::string slice_text(const Slice& slice) {
  const auto end = [](std::optional<std::int64_t> at) { return at ? formatted("{}", *at) : std::string("None"); };
  return formatted("slice({}, {}, None)", end(slice.start), end(slice.stop));
}

void check_domain(std::span<const std::string> dims, const Dims& shape, const Domain& domain) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto first = domain.origin[axis], count = domain.extent[axis];
    if (first < 0 || count < 0 || first > shape[axis] || count > shape[axis] - first)
      throw Error(Status::inval,
                  formatted("dimension {}: origin {}, extent {} in {} cells", dims[axis], first, count, shape[axis]));
  }
}

void check_box(const QuantityHaloSpec& q, const Box& box, std::string_view name) {
  std::vector<Slice> slices;
  for (std::size_t axis = 0; axis < std::min(box.start.size(), box.stop.size()); ++axis)
    slices.push_back({box.start[axis], box.stop[axis]});
  for (const Slice& slice : slices)  // a box counts from the start: negative ends are outside
    if (*slice.start < 0 || *slice.stop < 0)
      throw Error(Status::inval, formatted("{}: {} extends beyond the allocated cells", name, slice_text(slice)),
                  kOutsideAllocation);
  (void)resolve_box(slices, q.shape, q.dims, name);
}

}  // namespace

bool is_i_dim(std::string_view dim) noexcept {
  return dim == "i" || dim == "i_interface";
}

bool is_j_dim(std::string_view dim) noexcept {
  return dim == "j" || dim == "j_interface";
}

bool is_staggered(std::string_view dim) noexcept {
  return dim.ends_with(kStaggered);
}

std::string_view kind_of(std::string_view dim) noexcept {
  return is_staggered(dim) ? dim.substr(0, dim.size() - kStaggered.size()) : dim;
}

HorizontalAxes horizontal_axes(std::span<const std::string> dims) noexcept {
  HorizontalAxes axes;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (is_i_dim(dims[axis])) axes.i = static_cast<int>(axis);
    if (is_j_dim(dims[axis])) axes.j = static_cast<int>(axis);
  }
  return axes;
}

std::string names_text(std::span<const std::string> dims) {
  std::string out = "(";
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis > 0) out += ", ";
    out += "'" + dims[axis] + "'";
  }
  return out + (dims.size() == 1 ? ",)" : ")");
}

QuantityHaloSpec dense_field(std::vector<std::string> dims, const Dims& extent, std::int64_t halo, Dtype dtype) {
  QuantityHaloSpec q;
  q.dims = std::move(dims);
  q.extent = q.shape = extent;
  q.origin = Dims(extent.size(), 0);
  q.dtype = dtype;
  for (std::size_t axis = 0; axis < std::min(q.dims.size(), extent.size()); ++axis) {
    if (!is_i_dim(q.dims[axis]) && !is_j_dim(q.dims[axis])) continue;
    if (halo < 0 || halo > kMostCells || extent[axis] > kMostCells)
      throw Error(Status::inval,
                  formatted("dimension {}: {} cells with a halo of {}", q.dims[axis], extent[axis], halo));
    q.origin[axis] = halo;
    q.shape[axis] = extent[axis] + 2 * halo;
  }
  q.strides = c_strides(q.shape, static_cast<std::int64_t>(size_of(dtype)));
  check(q);
  return q;
}

void check_layout(const QuantityHaloSpec& q) {
  const std::array<std::pair<const char*, std::size_t>, 4> counts{{{"strides", q.strides.size()},
                                                                   {"origin", q.origin.size()},
                                                                   {"extent", q.extent.size()},
                                                                   {"dims", q.dims.size()}}};
  for (const auto& [name, count] : counts)
    if (count != q.shape.size())
      throw Error(Status::inval, formatted("{} has {} entries for shape {}, dimensions {}", name, count,
                                           tuple_text(q.shape.span()), names_text(q.dims)));
  for (std::size_t axis = 0; axis < q.shape.size(); ++axis)
    if (q.shape[axis] < 0)
      throw Error(Status::inval,
                  formatted("dimension {}: expected a number of cells (got {})", q.dims[axis], q.shape[axis]));
}

void check(const QuantityHaloSpec& spec) {
  check_layout(spec);
  check_domain(spec.dims, spec.shape, {spec.origin, spec.extent});
}

Domain domain_of(std::span<const std::string> dims, const Dims& shape, const std::optional<Dims>& origin,
                 const std::optional<Dims>& extent) {
  const std::size_t rank = shape.size();
  Domain domain{origin.value_or(Dims(rank, 0)), extent.value_or(shape)};
  if (dims.size() != rank || domain.origin.size() != rank || domain.extent.size() != rank)
    throw Error(Status::inval, formatted("an array of {} dimensions with {} dims, {} origins and {} extents", rank,
                                         dims.size(), domain.origin.size(), domain.extent.size()));
  check_domain(dims, shape, {domain.origin, extent.value_or(Dims(rank, 0))});
  if (!extent)
    for (std::size_t axis = 0; axis < rank; ++axis) domain.extent[axis] -= domain.origin[axis];
  check_domain(dims, shape, domain);
  return domain;
}

void check_halo(std::span<const std::string> dims, const Dims& shape, const Domain& domain, std::int64_t n_points) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto before = domain.origin[axis], after = shape[axis] - before - domain.extent[axis];
    if ((is_i_dim(dims[axis]) || is_j_dim(dims[axis])) && std::min(before, after) < n_points)
      throw Error(Status::inval, formatted("dimension {}: {} and {} cells beyond the compute domain, {} are needed",
                                           dims[axis], before, after, n_points));
  }
}

Box compute_domain(const QuantityHaloSpec& spec) {
  Box box{spec.origin, spec.origin};
  for (std::size_t axis = 0; axis < box.rank(); ++axis) box.stop[axis] += spec.extent[axis];
  return box;
}

void check_inside(std::string_view dim, std::int64_t start, std::int64_t stop, std::int64_t length) {
  const char* const past = start < 0 ? "start" : stop > length ? "end" : nullptr;
  if (past != nullptr)
    throw Error(Status::inval,
                formatted("Boundary slice extends past {} of domain on dimension {}: {}:{} of {} elements", past, dim,
                          start, stop, length),
                kOutsideAllocation);
}

Box boundary_slice(const QuantityHaloSpec& spec, Side side, std::int64_t n_halo, bool interior) {
  if (n_halo < 0) throw Error(Status::inval, formatted("n_halo: expected a positive number of cells (got {})", n_halo));
  const std::size_t rank = spec.dims.size();
  if (spec.origin.size() != rank || spec.extent.size() != rank || spec.shape.size() != rank)
    throw Error(Status::inval, formatted("dimensions {} with origin {}, extent {}, shape {}", names_text(spec.dims),
                                         tuple_text(spec.origin.span()), tuple_text(spec.extent.span()),
                                         tuple_text(spec.shape.span())));
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (!is_cell(spec.origin[axis]) || !is_cell(spec.extent[axis]) || !is_cell(n_halo))
      throw Error(Status::inval, formatted("dimension {}: origin {}, extent {}, n_halo {}: out of range",
                                           spec.dims[axis], spec.origin[axis], spec.extent[axis], n_halo));
  const Ends ends = ends_of(side);
  Box box = compute_domain(spec);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::string& dim = spec.dims[axis];
    const std::int64_t shared = is_staggered(dim) ? 1 : 0;
    const int end = is_i_dim(dim) ? ends.i : is_j_dim(dim) ? ends.j : 0;
    const std::int64_t first = box.start[axis], last = box.stop[axis];
    if (end < 0 && interior) box.start[axis] = first + shared, box.stop[axis] = first + shared + n_halo;
    if (end > 0 && interior) box.start[axis] = last - shared - n_halo, box.stop[axis] = last - shared;
    if (end < 0 && !interior) box.start[axis] = first - n_halo, box.stop[axis] = first;
    if (end > 0 && !interior) box.start[axis] = last, box.stop[axis] = last + n_halo;
    check_inside(dim, box.start[axis], box.stop[axis], spec.shape[axis]);
  }
  return box;
}

Box resolve_box(std::span<const Slice> slices, const Dims& shape, std::span<const std::string> dims,
                std::string_view name) {
  if (slices.size() != shape.size())
    throw Error(Status::inval, formatted("{}: expected a slice for each of the dimensions {} (got {})", name,
                                         names_text(dims), slices.size()));
  Box box;
  for (std::size_t axis = 0; axis < slices.size(); ++axis) {
    const std::int64_t length = shape[axis];
    const auto place = [&](std::optional<std::int64_t> end, std::int64_t missing) {
      const std::int64_t at = end.value_or(missing);
      return at < 0 ? at + length : at;
    };
    const std::int64_t start = place(slices[axis].start, 0), stop = place(slices[axis].stop, length);
    if (std::min(start, stop) < 0 || std::max(start, stop) > length)
      throw Error(Status::inval,
                  formatted("{}, dimension {}: {} extends beyond the {} allocated cells", name, dims[axis],
                            slice_text(slices[axis]), length),
                  kOutsideAllocation);
    if (start > stop)
      throw Error(Status::inval,
                  formatted("{}, dimension {}: {} starts after its stop", name, dims[axis], slice_text(slices[axis])));
    box.start.push_back(start);
    box.stop.push_back(stop);
  }
  return box;
}

void check(const HaloExchangeSpec& spec) {
  const QuantityHaloSpec& q = spec.quantity;
  check_layout(q);
  check_box(q, spec.pack, "pack box");
  check_box(q, spec.unpack, "unpack box");
  const Dims extents = spec.unpack.extents();
  const bool is_empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (q.strides[axis] == 0 && extents[axis] > 1 && !is_empty)  // an empty array of NumPy has strides of 0
      throw Error(Status::inval, formatted("unpack box, dimension {}: {} cells overlap (the stride is 0)", q.dims[axis],
                                           extents[axis]));
  if (spec.rotation % 4 == 0) return;
  for (const auto is_kind : {is_i_dim, is_j_dim})
    if (std::count_if(q.dims.begin(), q.dims.end(), is_kind) > 1)
      throw Error(Status::inval, formatted("cannot rotate dimensions {}: more than one is along {}", names_text(q.dims),
                                           is_kind("i") ? "('i', 'i_interface')" : "('j', 'j_interface')"));
}

void check_negatable(Dtype dtype) {
  switch (dtype) {
    case Dtype::u8:
    case Dtype::u16:
    case Dtype::u32:
    case Dtype::u64:
    case Dtype::boolean:
      throw Error(Status::dtype, formatted("cannot negate {}, which rotating a vector needs", name_of(dtype)));
    default:
      return;
  }
}

}  // namespace damacy::halo
