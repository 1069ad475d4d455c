// The layout of any array, by the protocol that it has: NumPy's, torch's attributes, the CUDA array interface, the
// buffer protocol, DLPack. Decides nothing.
#pragma once

#include "bindings.h"
#include "device_interface.h"

namespace damacy::python {

struct PythonLayout {
  ArrayLayout at;
  nb::object owner;  // keeps the memory alive
};

// Throws Error(dtype) for element types that halo exchanges cannot use and for objects that are no array, and what the
// protocols throw. A DLPack export of a device's memory is ordered before the legacy default stream.
PythonLayout layout_of(nb::handle array);

}  // namespace damacy::python
