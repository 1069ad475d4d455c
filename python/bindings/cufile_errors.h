// Converts failures of file I/O to Python exceptions of damacy.cufile.
#pragma once

#include <exception>
#include <string>

#include "bindings.h"

namespace damacy::python {

[[noreturn]] void raise(PyObject* type, const std::string& message);

// Convert any failure of an operation to a Python exception object, and raise one.
nb::object exception_object(const std::exception_ptr& error);
[[noreturn]] void throw_object(const nb::object& exception);

}  // namespace damacy::python
