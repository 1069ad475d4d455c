// Tuples of Python as values of halo exchanges, and back. Decides nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/wire.h"

namespace damacy::python {

inline Dims dims_of(nb::handle sequence) {
  Dims dims;
  for (const nb::handle item : sequence) {
    if (dims.size() == kMaxRank) throw Error(Status::rank, formatted("an array of more than {} axes", kMaxRank));
    dims.push_back(nb::cast<std::int64_t>(item));
  }
  return dims;
}

inline std::vector<std::string> names_of(nb::handle sequence) {
  std::vector<std::string> names;
  for (const nb::handle item : sequence) names.push_back(nb::cast<std::string>(item));
  return names;
}

inline Dtype dtype_of(nb::handle code) {
  return static_cast<Dtype>(nb::cast<int>(code));
}

// (dtype, dims, shape, strides, origin, extent)
inline halo::QuantityHaloSpec quantity_of(nb::handle tuple) {
  halo::QuantityHaloSpec q;
  q.dtype = dtype_of(nb::object(tuple[0]));
  q.dims = names_of(nb::object(tuple[1]));
  q.shape = dims_of(nb::object(tuple[2]));
  q.strides = dims_of(nb::object(tuple[3]));
  q.origin = dims_of(nb::object(tuple[4]));
  q.extent = dims_of(nb::object(tuple[5]));
  return q;
}

inline halo::Side side_of(int side) {
  if (side < 0 || side >= halo::kSides) throw Error(Status::inval, formatted("side {}: expected one of 0 to 7", side));
  return static_cast<halo::Side>(side);
}

inline nb::object box_tuple(std::uint32_t field, const Box& box) {
  return nb::make_tuple(field, tuple_of(box.start), tuple_of(box.stop));
}

// (x box, y box or None, rotation), and True for a scalar that is negated.
inline nb::object entry_tuple(const halo::Entry& entry) {
  const nb::object x = box_tuple(entry.x.field, entry.x.box);
  const nb::object y = entry.y ? box_tuple(entry.y->field, entry.y->box) : nb::none();
  return entry.negate ? nb::make_tuple(x, y, entry.rotation, true) : nb::make_tuple(x, y, entry.rotation);
}

inline nb::object entries_tuple(const std::vector<halo::Entry>& entries) {
  nb::list out;
  for (const auto& entry : entries) out.append(entry_tuple(entry));
  return nb::tuple(out);
}

}  // namespace damacy::python
