// Descriptions of fields and of exchanges for Python: boxes, rotation, and the messages of a transformer. Decides
// nothing.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/halo/rotate.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/transformer_plan.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

std::vector<halo::Slice> slices_of(nb::handle pairs) {
  std::vector<halo::Slice> slices;
  for (const nb::handle pair : pairs)
    slices.push_back({nb::cast<std::optional<std::int64_t>>(nb::object(pair[0])),
                      nb::cast<std::optional<std::int64_t>>(nb::object(pair[1]))});
  return slices;
}

nb::tuple ends_tuple(const Box& box) {
  return nb::make_tuple(tuple_of(box.start), tuple_of(box.stop));
}

// Boxes are pairs (start, stop) of each dimension, with None and negative ends as in slices.
halo::HaloExchangeSpec exchange_spec(nb::handle quantity, nb::handle pack, int rotation, nb::handle unpack) {
  halo::HaloExchangeSpec spec;
  auto& q = spec.quantity = quantity_of(quantity);
  halo::check_layout(q);
  spec.pack = halo::resolve_box(slices_of(pack), q.shape, q.dims, "pack box");
  spec.rotation = rotation;
  spec.unpack = halo::resolve_box(slices_of(unpack), q.shape, q.dims, "unpack box");
  halo::check(spec);
  return spec;
}

nb::tuple boundary_slice(nb::handle dims, nb::handle origin, nb::handle extent, nb::handle shape, int side,
                         std::int64_t n_halo, bool interior) {
  halo::QuantityHaloSpec q;
  q.dims = names_of(dims);
  q.origin = dims_of(origin);
  q.extent = dims_of(extent);
  q.shape = dims_of(shape);
  return ends_tuple(halo::boundary_slice(q, side_of(side), n_halo, interior));
}

halo::TransformerSpecs specs_of(nb::handle x, nb::handle y) {
  halo::TransformerSpecs specs;
  for (const nb::handle item : x) specs.x.push_back(nb::cast<const halo::HaloExchangeSpec&>(item));
  if (!y.is_none()) {
    specs.y.emplace();
    for (const nb::handle item : y) specs.y->push_back(nb::cast<const halo::HaloExchangeSpec&>(item));
  }
  halo::check(specs);
  return specs;
}

nb::tuple message_tuple(const halo::TransformerSpecs& specs, bool unpack, bool native, std::uint32_t first) {
  const auto message = halo::message_of(specs, unpack ? halo::Direction::unpack : halo::Direction::pack,
                                        native ? halo::Wire::native : halo::Wire::ndsl, first);
  return nb::make_tuple(entries_tuple(message.entries), native);
}

// The strides of each array, in the order of the specs.
nb::tuple field_tuples(const halo::TransformerSpecs& specs, nb::handle strides) {
  nb::list out;
  std::size_t i = 0;
  for (const nb::handle own : strides) {
    if (i == specs.count()) break;
    const auto& q = specs[i++].quantity;
    const auto field = halo::field_of(q, q.strides);
    out.append(nb::make_tuple(static_cast<int>(field.dtype), tuple_of(field.shape), own, field.i_axis, field.j_axis,
                              tuple_of(field.ranking)));
  }
  return nb::tuple(out);
}

std::pair<int, int> axes_of(nb::handle dims) {
  const auto [i, j] = halo::horizontal_axes(names_of(dims));
  return {i, j};
}

using Components = std::pair<std::pair<bool, bool>, std::pair<bool, bool>>;

Components components_of(int quarters) {
  const auto [x, y] = halo::rotated_components(quarters);
  return {{x.from_y, x.negate}, {y.from_y, y.negate}};
}

std::tuple<bool, bool, bool> turn_of(int i_axis, int j_axis, int quarters) {
  const auto turn = halo::turn_of({i_axis, j_axis}, quarters);
  return {turn.flips_i, turn.flips_j, turn.swaps};
}

}  // namespace

void bind_halo_specs(nb::module_& m) {
  nb::class_<halo::HaloExchangeSpec>(m, "HaloExchangeSpec")
      .def("__init__",
           [](halo::HaloExchangeSpec* self, nb::sequence quantity, nb::sequence pack, int rotation,
              nb::sequence unpack) {
             new (self) halo::HaloExchangeSpec(exchange_spec(quantity, pack, rotation, unpack));
           })
      .def_prop_ro("pack_box", [](const halo::HaloExchangeSpec& s) { return ends_tuple(s.pack); })
      .def_prop_ro("unpack_box", [](const halo::HaloExchangeSpec& s) { return ends_tuple(s.unpack); })
      .def_prop_ro("shape", [](const halo::HaloExchangeSpec& s) { return tuple_of(s.quantity.shape); })
      .def_prop_ro("strides", [](const halo::HaloExchangeSpec& s) { return tuple_of(s.quantity.strides); })
      .def_prop_ro("pack_size", [](const halo::HaloExchangeSpec& s) { return *product(s.pack.extents().span()); })
      .def_prop_ro("unpack_size", [](const halo::HaloExchangeSpec& s) { return *product(s.unpack.extents().span()); });
  nb::class_<halo::TransformerSpecs>(m, "TransformerSpecs")
      .def(
          "__init__",
          [](halo::TransformerSpecs* self, nb::sequence x, nb::object y) {
            new (self) halo::TransformerSpecs(specs_of(x, y));
          },
          nb::arg("x"), nb::arg("y").none())
      .def("message", &message_tuple, nb::arg("unpack"), nb::arg("native"), nb::arg("first") = 0)
      .def(
          "fields", [](const halo::TransformerSpecs& s, nb::sequence strides) { return field_tuples(s, strides); },
          nb::arg("strides"));
  m.def("halo_boundary_slice", [](nb::sequence dims, nb::sequence origin, nb::sequence extent, nb::sequence shape,
                                  int side, std::int64_t n_halo, bool interior) {
    return boundary_slice(dims, origin, extent, shape, side, n_halo, interior);
  });
  m.def("check_halo_field", [](nb::sequence field) { halo::check(quantity_of(field)); }, nb::arg("field"));
  m.def("halo_axes", [](nb::sequence dims) { return axes_of(dims); }, nb::arg("dims"));
  m.def("halo_turn", &turn_of, nb::arg("i_axis"), nb::arg("j_axis"), nb::arg("quarters"));
  m.def("halo_components", &components_of, nb::arg("quarters"));
}

}  // namespace damacy::python
