// Gets memory by the buffer protocol, or by C functions of its library. Else calls damacy._fileio.memory, which knows
// the other protocols.
#include "cufile_buffers.h"

#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "cufile_errors.h"
#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/dlpack_abi.h"
#include "device_interface.h"
#include "foreign_tensor.h"

namespace damacy::python {
namespace {

// Strides of dimensions of size 0 or 1 do not matter.
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

// numpy.ndarray, if it has been imported.
PyTypeObject* ndarray_type() {
  static PyObject* found = nullptr;
  if (found != nullptr) return reinterpret_cast<PyTypeObject*>(found);
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");  // borrowed
  if (numpy == nullptr) return nullptr;
  found = PyObject_GetAttrString(numpy, "ndarray");
  if (found == nullptr) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(found);
}

// Types for which the buffer protocol is used without looking for the attributes of device arrays first: that lookup
// costs more than the rest of a small read.
bool is_host_type(PyTypeObject* type) {
  return type == &PyByteArray_Type || type == &PyBytes_Type || type == &PyMemoryView_Type || type == ndarray_type();
}

// Refuses arrays of Python objects: bytes of a file would become pointers.
void check_holds_no_objects(nb::handle object, const Py_buffer& view) {
  if (view.itemsize % static_cast<Py_ssize_t>(sizeof(PyObject*)) != 0 || ndarray_type() == nullptr) return;
  const nb::object array = PyMemoryView_Check(object.ptr()) != 0 ? nb::object(object.attr("obj")) : nb::borrow(object);
  if (PyObject_TypeCheck(array.ptr(), ndarray_type()) == 0) return;
  if (nb::cast<bool>(array.attr("dtype").attr("hasobject")))
    raise(PyExc_TypeError, "file I/O cannot use an array of Python objects as a buffer");
}

}  // namespace

bool HeldBuffer::take_view(nb::handle object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  if (!view_.take(object, PyBUF_INDIRECT)) throw nb::python_error();
  check_holds_no_objects(object, *view_);
  if (view_->suboffsets != nullptr) {
    for (int i = 0; i < view_->ndim; ++i)
      if (view_->suboffsets[i] >= 0) raise(PyExc_NotImplementedError, "buffers with suboffsets are not supported");
  }
  if (!is_dense(*view_, true) && !is_dense(*view_, false)) raise(PyExc_ValueError, "Array must be contiguous");
  read_only_ = view_->readonly != 0;
  memory_ = {view_.bytes().data(), view_.bytes().size(), nullptr};
  return true;
}

void HeldBuffer::take_with_python(nb::handle object, nb::handle stream, nb::handle interface) {
  const nb::object said = interface.is_valid() ? nb::borrow(interface) : nb::none();
  const nb::object described = python_part("damacy._fileio.memory", "describe")(object, stream, said);
  if (described.is_none())
    raise(PyExc_TypeError,
          formatted("expected a buffer, an array with __cuda_array_interface__ or one with __dlpack__ (got {})",
                    nb::cast<std::string>(object.type().attr("__name__"))));
  read_only_ = nb::cast<bool>(described.attr("read_only"));
  stream_ = nb::cast<std::uint64_t>(described.attr("stream"));
  owner_ = described.attr("owner");
  place(nb::cast<std::uint64_t>(described.attr("pointer")), nb::cast<std::uint64_t>(described.attr("nbytes")),
        nb::cast<bool>(described.attr("on_device")));
}

void HeldBuffer::hold(ArrayBytes found, nb::handle object) {
  read_only_ = found.read_only;
  owner_ = found.owner.is_valid() ? std::move(found.owner) : nb::borrow(object);
  place(found.pointer, found.size, found.on_device);
}

// What most device arrays and streams are like, without Python code.
bool HeldBuffer::take_usual(nb::handle object, nb::handle stream, nb::handle interface) {
  auto found = interface.is_valid() ? usual_interface(interface) : torch_memory(object);
  if (!found) return false;
  if (stream.is_none()) {
    if (!found->stream && has_current_stream(object)) return false;
    stream_ = found->stream.value_or(kLegacyStream);
  } else {
    if (!PyLong_CheckExact(stream.ptr())) return false;
    const unsigned long long handle = PyLong_AsUnsignedLongLong(stream.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
    stream_ = handle;
  }
  hold(std::move(*found), object);
  return true;
}

// DLPack by C functions. `__dlpack__` is called instead if the caller names a stream, because only it orders the
// library's work before that stream; and for torch's tensors that torch_memory() left: with a gradient, conjugates, and
// so on, of which torch refuses some.
bool HeldBuffer::take_exported(nb::handle object, nb::handle stream) {
  if (!stream.is_none() || is_tensor(object)) return false;
  const DLPackExchangeAPI* const api = exchange_api(object.type());
  if (api == nullptr) return false;
  ArrayBytes found = exported_bytes(*api, object);
  stream_ = found.stream.value_or(kLegacyStream);
  hold(std::move(found), object);
  return true;
}

namespace {

// The first call loads the driver.
std::shared_ptr<Device> device_of(std::uint64_t pointer) {
  static bool is_loaded = false;  // under the GIL
  auto device = is_loaded ? bind_pointer(pointer) : without_gil([&] { return bind_pointer(pointer); });
  is_loaded = true;
  return device;
}

}  // namespace

void HeldBuffer::place(std::uint64_t pointer, std::uint64_t size, bool on_device) {
  memory_ = {reinterpret_cast<std::byte*>(pointer), size, nullptr};
  is_host_ = !on_device;
  if (memory_.size == 0 || is_host_) return;
  auto device = device_of(pointer);
  if (device == nullptr) {
    if (probe_cuda().state != CudaState::usable)
      raise(PyExc_TypeError, formatted("the buffer is in device memory, but no GPU is usable: {}", probe_cuda().why));
    is_host_ = true;  // host memory that devices can access
    return;
  }
  device->check_usable();
  const auto before = device->try_fence(stream_);
  if (!before)
    throw_object(exception_object(std::make_exception_ptr(
        Error(Status::cuda, "the stream is capturing a graph: file I/O cannot be captured", "capture"))));
  memory_.device = std::make_shared<OnDevice>(OnDevice{std::move(device), *before, recorder_on(stream_)});
}

void HeldBuffer::take(nb::handle object, nb::handle stream) {
  if (is_host_type(Py_TYPE(object.ptr())) && take_view(object)) return;
  if (take_usual(object, stream, {})) return;
  const nb::object interface = nb::steal(PyObject_GetAttrString(object.ptr(), "__cuda_array_interface__"));
  if (!interface.is_valid()) {
    PyErr_Clear();
    if (take_view(object) || take_exported(object, stream)) return;
  } else if (take_usual(object, stream, interface)) {
    return;
  }
  take_with_python(object, stream, interface);
}

namespace {

nb::tuple described(const DLTensor& tensor, bool read_only, nb::object owner) {
  const ForeignTensor said = checked(tensor);
  return nb::make_tuple(said.address, said.bytes, read_only, said.shape, said.strides, said.item_bytes, owner);
}

}  // namespace

nb::tuple dlpack_memory(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    auto* tensor = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    nb::object owner = owner_of(tensor);
    if (tensor->version.major > 1)
      raise(PyExc_NotImplementedError,
            formatted("DLPack major version {} is not supported, only 0 and 1", tensor->version.major));
    return described(tensor->dl_tensor, (tensor->flags & kDlpackFlagIsReadOnly) != 0, std::move(owner));
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") == 0)
    raise(PyExc_TypeError, "__dlpack__ did not return a DLPack capsule");
  auto* tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return described(tensor->dl_tensor, false, owner_of(tensor));
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
  if (overflow < 0 || (overflow == 0 && found < 0)) raise(PyExc_OverflowError, formatted("negative value: {}", name));
  if (overflow > 0) raise(PyExc_OverflowError, formatted("{} is above 2^63 - 1", name));
  return static_cast<std::uint64_t>(found);
}

}  // namespace damacy::python
