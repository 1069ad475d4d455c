// DLPack capsules of batches. Their deleters are native: they need no GIL and no Python object, and may run on any
// thread, also after the interpreter has ended.
#include "damacy/device/dlpack_abi.h"

#include <optional>
#include <utility>

#include "bindings.h"

namespace damacy::python {
namespace {

[[noreturn]] void buffer_error(const char* message) {
  PyErr_SetString(PyExc_BufferError, message);
  throw nb::python_error();
}

// Runs when a capsule is destroyed unconsumed; a consumer renames it.
void drop_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  auto* tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  tensor->deleter(tensor);
}

void drop_versioned_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
  auto* tensor = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
  tensor->deleter(tensor);
}

bool is_pair(const nb::object& value) {
  return PyTuple_Check(value.ptr()) && PyTuple_Size(value.ptr()) == 2;
}

// Empty if the object is not an integer of 64 bits.
std::optional<std::int64_t> integer_of(nb::handle value) {
  if (!PyLong_Check(value.ptr()) || PyBool_Check(value.ptr())) return std::nullopt;
  int beyond = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &beyond);
  if (beyond != 0) return std::nullopt;
  return number;
}

bool wants_versioned(const nb::object& max_version) {
  if (max_version.is_none()) return false;
  if (!is_pair(max_version)) throw nb::type_error("max_version: expected None or a tuple (major, minor)");
  const auto major = integer_of(max_version[0]);
  const auto minor = integer_of(max_version[1]);
  if (!major || !minor || *major < 0 || *minor < 0)
    throw nb::type_error("max_version: expected two integers, 0 or more");
  return *major >= 1;
}

// The consumer's stream, in DLPack's numbering.
std::optional<std::uint64_t> stream_of(const nb::object& stream, bool on_host) {
  if (stream.is_none()) return std::nullopt;
  if (on_host) buffer_error("stream: expected None for a batch in host memory");
  const auto number = integer_of(stream);
  if (!number) buffer_error("stream: expected None or an integer");
  if (*number == -1) return Batch::kAnyStream;
  if (*number < 0) buffer_error("stream: expected None, -1, 0, 1, 2 or a handle");
  return static_cast<std::uint64_t>(*number);
}

// Empty if DLPack has no name for the device.
std::optional<DlDevice> device_of(const nb::object& dl_device) {
  if (!is_pair(dl_device)) buffer_error("dl_device: expected None or a tuple (type, index)");
  const auto type = integer_of(dl_device[0]);
  const auto index = integer_of(dl_device[1]);
  if (!type || !index || !std::in_range<std::int32_t>(*type) || !std::in_range<std::int32_t>(*index))
    return std::nullopt;
  return DlDevice{static_cast<std::int32_t>(*type), static_cast<std::int32_t>(*index)};
}

Batch::Export export_of(const Batch& batch, const nb::object& stream, const nb::object& dl_device,
                        const nb::object& copy) {
  const DlDevice own = batch.device();
  Batch::Export how;
  how.stream = stream_of(stream, batch.on_host());
  const std::optional<DlDevice> wanted = dl_device.is_none() ? own : device_of(dl_device);
  if (wanted != own) {
    if (wanted != DlDevice{1, 0}) buffer_error("dl_device: expected the batch's own device, or the host (1, 0)");
    how.to_host = true;
  }
  how.copy = !copy.is_none() && nb::cast<bool>(copy);
  if (how.to_host && !copy.is_none() && !how.copy)
    buffer_error("copy=False: a batch on a GPU can be exported to the host only by a copy");
  return how;
}

template <class Tensor>
nb::object capsule_of(Tensor* tensor, const char* name, PyCapsule_Destructor drop) {
  PyObject* capsule = PyCapsule_New(tensor, name, drop);
  if (capsule == nullptr) tensor->deleter(tensor);
  return nb::steal(capsule);
}

}  // namespace

nb::object dlpack_capsule(const Batch& batch, std::optional<std::string_view> array, nb::object stream,
                          nb::object max_version, nb::object dl_device, nb::object copy) {
  const bool versioned = wants_versioned(max_version);
  Batch::Export how = export_of(batch, stream, dl_device, copy);
  how.array = array;
  // The copy waits for work of consumers, and that work may need the GIL.
  if (versioned)
    return capsule_of(without_gil([&] { return batch.to_dlpack_versioned(how); }), "dltensor_versioned",
                      drop_versioned_capsule);
  return capsule_of(without_gil([&] { return batch.to_dlpack(how); }), "dltensor", drop_capsule);
}

}  // namespace damacy::python
