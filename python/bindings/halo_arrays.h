// The arrays of a call to a transformer or an exchanger. Decides nothing.
#pragma once

#include "bindings.h"
#include "damacy/halo/transformer_plan.h"

namespace damacy::python {

// Arrays in the memory of one device, or of the host. Keeps them.
struct PythonArrays {
  nb::list held;                   // owners of their memory
  nb::object device = nb::none();  // an index; None: the host
  nb::dict named;                  // of those that name a stream: the last one of each type and stream
  nb::dict unnamed;                // of the others: the last one of each type
  halo::GatheredArrays gathered;
};

}  // namespace damacy::python
