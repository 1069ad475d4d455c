// Descriptions of fields and of exchanges for Python: boxes and rotation. Decides nothing.
#include <algorithm>
#include <memory>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

// `name`: of the box, for errors.
std::vector<halo::Slice> slices_of(nb::handle parts, std::span<const std::string> dims, const char* name) {
  std::vector<halo::Slice> slices;
  for (const nb::handle part : parts) {
    const auto expected = [&](const char* what) {
      const std::size_t index = slices.size();
      return Error(Status::inval, formatted("{}, dimension {}: expected {} (got {})", name,
                                            index < dims.size() ? dims[index] : formatted("number {}", index), what,
                                            nb::repr(part).c_str()));
    };
    const auto end = [&](const char* which) -> std::optional<std::int64_t> {
      const nb::object number = part.attr(which);
      if (number.is_none()) return std::nullopt;
      if (PyIndex_Check(number.ptr()) == 0) throw expected("a slice of integers");
      return nb::cast<std::int64_t>(number);
    };
    if (PySlice_Check(part.ptr()) == 0) throw expected("a slice with step None or 1");
    const nb::object step = part.attr("step");
    if (!step.is_none() && !step.equal(nb::int_(1))) throw expected("a slice with step None or 1");
    slices.push_back({end("start"), end("stop")});
  }
  return slices;
}

// Boxes are slices of each dimension.
halo::HaloExchangeSpec exchange_spec(nb::handle quantity, nb::handle pack, int rotation, nb::handle unpack) {
  halo::HaloExchangeSpec spec;
  auto& q = spec.quantity = quantity_of(quantity);
  halo::check_layout(q);
  spec.pack = halo::resolve_box(slices_of(pack, q.dims, "pack box"), q.shape, q.dims, "pack box");
  spec.rotation = rotation;
  spec.unpack = halo::resolve_box(slices_of(unpack, q.dims, "unpack box"), q.shape, q.dims, "unpack box");
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
  return slices_tuple(halo::boundary_slice(q, side_of(side), n_halo, interior));
}

// (origin, extent)
nb::tuple domain_of(nb::handle dims, nb::handle shape, nb::handle origin, nb::handle extent) {
  const auto given = [](nb::handle numbers) {
    return numbers.is_none() ? std::nullopt : std::optional(dims_of(numbers));
  };
  const auto domain = halo::domain_of(names_of(dims), dims_of(shape), given(origin), given(extent));
  return nb::make_tuple(tuple_of(domain.origin), tuple_of(domain.extent));
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
      .def_prop_ro("shape", [](const halo::HaloExchangeSpec& s) { return tuple_of(s.quantity.shape); })
      .def_prop_ro("strides", [](const halo::HaloExchangeSpec& s) { return tuple_of(s.quantity.strides); })
      .def_prop_ro("pack_size", [](const halo::HaloExchangeSpec& s) { return *product(s.pack.extents().span()); })
      .def_prop_ro("unpack_size", [](const halo::HaloExchangeSpec& s) { return *product(s.unpack.extents().span()); });
  m.def("halo_boundary_slice", [](nb::sequence dims, nb::sequence origin, nb::sequence extent, nb::sequence shape,
                                  int side, std::int64_t n_halo, bool interior) {
    return boundary_slice(dims, origin, extent, shape, side, n_halo, interior);
  });
  m.def(
      "halo_domain",
      [](nb::sequence dims, nb::sequence shape, nb::object origin, nb::object extent) {
        return domain_of(dims, shape, origin, extent);
      },
      nb::arg("dims"), nb::arg("shape"), nb::arg("origin").none(), nb::arg("extent").none());
  m.def(
      "halo_domain_slices",
      [](nb::sequence origin, nb::sequence extent) {
        return slices_tuple(halo::compute_domain({{}, {}, {}, dims_of(origin), dims_of(extent)}));
      },
      nb::arg("origin"), nb::arg("extent"));
  m.def(
      "check_halo_points",
      [](nb::sequence dims, nb::sequence shape, nb::sequence origin, nb::sequence extent, std::int64_t n_points) {
        halo::check_halo(names_of(dims), dims_of(shape), {dims_of(origin), dims_of(extent)}, n_points);
      },
      nb::arg("dims"), nb::arg("shape"), nb::arg("origin"), nb::arg("extent"), nb::arg("n_points"));
  m.def("check_halo_field", [](nb::sequence field) { halo::check(quantity_of(field)); }, nb::arg("field"));
  m.def("halo_axes", [](nb::sequence dims) { return axes_of(dims); }, nb::arg("dims"));
  m.def("halo_turn", &turn_of, nb::arg("i_axis"), nb::arg("j_axis"), nb::arg("quarters"));
  m.def("halo_components", &components_of, nb::arg("quarters"));
}

}  // namespace damacy::python
