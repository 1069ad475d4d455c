// The buffer protocol here; the protocols of devices through damacy._io_memory, which knows other libraries.
#include "cufile_buffers.h"

#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "damacy/core/text.h"

namespace damacy::python {
namespace {

[[noreturn]] void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

// Strides of dimensions of size 0 or 1 say nothing.
bool is_dense(const Py_buffer& view, bool c_order) {
  if (view.strides == nullptr || view.len == 0) return true;
  Py_ssize_t expected = view.itemsize;
  for (int i = 0; i < view.ndim; ++i) {
    const int axis = c_order ? view.ndim - 1 - i : i;
    if (view.shape[axis] == 1) continue;
    if (view.strides[axis] != expected) return false;
    expected *= view.shape[axis];
  }
  return true;
}

// numpy.ndarray, once somebody has imported it.
PyTypeObject* ndarray_type() {
  static PyObject* found = nullptr;
  if (found != nullptr) return reinterpret_cast<PyTypeObject*>(found);
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");  // borrowed
  if (numpy == nullptr) return nullptr;
  found = PyObject_GetAttrString(numpy, "ndarray");
  if (found == nullptr) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(found);
}

// Types that are asked for their memory by the buffer protocol at once: looking for a device's attribute that they do
// not have costs more than the rest of a small read.
bool is_host_type(PyTypeObject* type) {
  return type == &PyByteArray_Type || type == &PyBytes_Type || type == &PyMemoryView_Type || type == ndarray_type();
}

}  // namespace

HeldBuffer::HeldBuffer(HeldBuffer&& other) noexcept
    : view_(other.view_),
      has_view_(std::exchange(other.has_view_, false)),
      read_only_(other.read_only_),
      owner_(std::move(other.owner_)),
      memory_(std::move(other.memory_)) {}

void HeldBuffer::release() noexcept {
  if (std::exchange(has_view_, false)) PyBuffer_Release(&view_);
  owner_.reset();
  memory_ = {};
}

bool HeldBuffer::take_view(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_INDIRECT) != 0) throw nb::python_error();
  has_view_ = true;
  if (view_.suboffsets != nullptr) {
    for (int i = 0; i < view_.ndim; ++i)
      if (view_.suboffsets[i] >= 0) raise(PyExc_NotImplementedError, "buffers with suboffsets are not supported");
  }
  if (!is_dense(view_, true) && !is_dense(view_, false)) raise(PyExc_ValueError, "Array must be contiguous");
  read_only_ = view_.readonly != 0;
  memory_ = {static_cast<std::byte*>(view_.buf), static_cast<std::uint64_t>(view_.len), nullptr};
  return true;
}

void HeldBuffer::take_with_python(nb::handle object, nb::handle stream) {
  static_cast<void>(stream);
  raise(PyExc_TypeError, text("expected a buffer, an array with __cuda_array_interface__ or one with __dlpack__ (got ",
                              nb::cast<std::string>(object.type().attr("__name__")), ")"));
}

void HeldBuffer::take(nb::handle object, nb::handle stream) {
  if (is_host_type(Py_TYPE(object.ptr())) && take_view(object)) return;
  if (!PyObject_HasAttrString(object.ptr(), "__cuda_array_interface__") && take_view(object)) return;
  take_with_python(object, stream);
}

std::uint64_t natural(nb::handle value, const char* name, std::uint64_t otherwise) {
  if (value.is_none()) return otherwise;
  nb::object number = nb::borrow(value);
  if (!PyLong_Check(value.ptr())) {
    number = nb::steal(PyNumber_Index(value.ptr()));
    if (!number.is_valid()) throw nb::python_error();
  }
  int overflow = 0;
  const long long found = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow < 0 || (overflow == 0 && found < 0)) raise(PyExc_OverflowError, text("negative value: ", name));
  if (overflow > 0) raise(PyExc_OverflowError, text(name, " is above 2^63 - 1"));
  return static_cast<std::uint64_t>(found);
}

}  // namespace damacy::python
