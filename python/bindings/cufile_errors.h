// Failures of file I/O as Python exceptions of damacy.cufile.
#pragma once

#include <exception>

#include "bindings.h"

namespace damacy::python {

// Any failure of an operation as a Python exception object, and raising it.
nb::object exception_object(const std::exception_ptr& error);
[[noreturn]] void throw_object(const nb::object& exception);

}  // namespace damacy::python
