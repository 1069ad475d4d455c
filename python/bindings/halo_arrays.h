// The arrays of a call to a transformer or an exchanger. Decides nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "bindings.h"
#include "damacy/halo/transformer_plan.h"
#include "device_interface.h"

namespace damacy::python {

// An array of NumPy's or torch's own class, as a call found it. The array itself is not kept.
struct PlainArray {
  std::size_t place;  // the first one in the lists of the call, those of x first
  PyObject* type;
  ArrayLayout layout;
};

// Arrays in the memory of one device, or of the host. Keeps them.
struct PythonArrays {
  nb::list held;              // owners of their memory
  std::optional<int> device;  // none: the host
  nb::dict named;             // of those that name a stream: the last one of each type and stream
  nb::dict unnamed;           // of the others: the last one of each type
  halo::GatheredArrays gathered;
  std::vector<PlainArray> plain;  // the distinct arrays; empty if one is not plain
};

// `look`: damacy.halo._arrays.look, for arrays that are not as usual.
PythonArrays gathered_quantities(const halo::TransformerPlans& plans, nb::handle x, nb::handle y, nb::callable look);
// Throws Error(inval) for arrays of several devices.
PythonArrays joined(const std::vector<PythonArrays>& parts);

}  // namespace damacy::python
