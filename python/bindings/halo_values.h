// Tuples of Python as values of halo exchanges, and back. Decides nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/topology.h"
#include "damacy/halo/transport.h"
#include "damacy/halo/wire.h"

namespace damacy::python {

// Of Python's transports. Made once: a name that is made for each call costs more than the call.
struct MessageNames {
  PyObject* post = PyUnicode_InternFromString("post");
  PyObject* post_receives = PyUnicode_InternFromString("post_receives");
  PyObject* send = PyUnicode_InternFromString("send");
  PyObject* wait_received = PyUnicode_InternFromString("wait_received");
  PyObject* wait_sent = PyUnicode_InternFromString("wait_sent");
};

// Needs the GIL.
inline const MessageNames& message_names() {
  static const MessageNames names;
  return names;
}

using MessageName = PyObject* MessageNames::*;

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

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

inline std::vector<halo::Cells> cells_of_pairs(const Pairs& pairs) {
  std::vector<halo::Cells> cells;
  for (const auto& [start, stop] : pairs) cells.push_back({start, stop});
  return cells;
}

inline halo::Side side_of(int side) {
  if (side < 0 || side >= halo::kSides) throw Error(Status::inval, formatted("side {}: expected one of 0 to 7", side));
  return static_cast<halo::Side>(side);
}

inline Pairs pairs_of(const std::vector<halo::Cells>& cells) {
  Pairs pairs;
  for (const auto& [start, stop] : cells) pairs.emplace_back(start, stop);
  return pairs;
}

// An index of an array.
inline nb::tuple slices_tuple(const Box& box) {
  nb::list slices;
  for (std::size_t axis = 0; axis < box.rank(); ++axis)
    slices.append(nb::slice(nb::int_(box.start[axis]), nb::int_(box.stop[axis]), nb::none()));
  return nb::tuple(slices);
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

inline nb::bytes digest_bytes(const halo::Digest& digest) {
  return nb::bytes(static_cast<const void*>(digest.data()), sizeof digest);
}

inline halo::Digest digest_of(nb::handle bytes) {
  const auto given = nb::cast<nb::bytes>(bytes);
  halo::Digest digest{};
  std::memcpy(digest.data(), given.c_str(), std::min(given.size(), sizeof digest));
  return digest;
}

inline halo::Digests digests_of(nb::handle pair) {
  return {digest_of(nb::object(pair[0])), digest_of(nb::object(pair[1]))};
}

}  // namespace damacy::python
