// Failures of file I/O as Python exceptions of damacy.cufile.
#pragma once

#include <exception>
#include <string>

#include "bindings.h"

namespace damacy::python {

[[noreturn]] void raise(PyObject* type, const std::string& message);

// Any failure of an operation as a Python exception object, and raising it.
nb::object exception_object(const std::exception_ptr& error);
[[noreturn]] void throw_object(const nb::object& exception);

}  // namespace damacy::python
