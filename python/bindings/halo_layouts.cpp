// Layouts of arrays and of padded arrays, and element types, for Python. Decides nothing.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/halo/spec.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

// Names and bytes, by the numbers of Dtype.
nb::list dtypes() {
  nb::list out;
  for (int code = 0; code < halo::kFieldDtypes; ++code)
    out.append(nb::make_tuple(name_of(static_cast<Dtype>(code)), size_of(static_cast<Dtype>(code))));
  return out;
}

nb::tuple padded_shape(nb::sequence dims, nb::sequence shape, const Pairs& widths) {
  return tuple_of(halo::padded_shape(names_of(dims), dims_of(shape), cells_of_pairs(widths)));
}

nb::tuple padded_strides(nb::sequence padded, nb::sequence shape, nb::sequence strides) {
  return tuple_of(halo::padded_strides(dims_of(padded), dims_of(shape), dims_of(strides)));
}

nb::list padded_edges(nb::sequence dims, nb::sequence padded, nb::sequence decomposed, const Pairs& unowned) {
  nb::list out;
  for (const Box& box : halo::edges_of(names_of(dims), dims_of(padded), names_of(decomposed), cells_of_pairs(unowned)))
    out.append(slices_tuple(box));
  return out;
}

}  // namespace

void bind_halo_layouts(nb::module_& m) {
  m.def("halo_dtypes", &dtypes);
  m.def("check_negatable", [](int code) { halo::check_negatable(static_cast<Dtype>(code)); }, nb::arg("code"));
  m.def(
      "c_strides",
      [](nb::sequence shape, std::int64_t item) { return tuple_of(halo::c_strides(dims_of(shape), item)); },
      nb::arg("shape"), nb::arg("item"));
  m.def("padded_shape", &padded_shape, nb::arg("dims"), nb::arg("shape"), nb::arg("widths"));
  m.def(
      "padded_interior",
      [](nb::sequence padded, const Pairs& widths) {
        return slices_tuple(halo::interior_of(dims_of(padded), cells_of_pairs(widths)));
      },
      nb::arg("padded"), nb::arg("widths"));
  m.def("padded_strides", &padded_strides, nb::arg("padded"), nb::arg("shape"), nb::arg("strides"));
  m.def("padded_edges", &padded_edges, nb::arg("dims"), nb::arg("padded"), nb::arg("decomposed"), nb::arg("unowned"));
}

}  // namespace damacy::python
