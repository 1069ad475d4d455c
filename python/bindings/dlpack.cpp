// DLPack capsules of batches. The deleters behind them are native: no GIL, no Python object, any thread, also after
// exit.
#include "damacy/pipeline/dlpack_abi.h"

#include <optional>

#include "bindings.h"

namespace damacy::python {
namespace {

[[noreturn]] void buffer_error(const char* message) {
  PyErr_SetString(PyExc_BufferError, message);
  throw nb::python_error();
}

// Runs when a capsule dies unconsumed: a consumer renames it.
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

bool wants_versioned(const nb::object& max_version) {
  if (max_version.is_none()) return false;
  if (!PyTuple_Check(max_version.ptr()) || PyTuple_Size(max_version.ptr()) != 2)
    throw nb::type_error("max_version: expected None or a tuple (major, minor)");
  for (const nb::handle part : max_version)
    if (!PyLong_Check(part.ptr()) || PyBool_Check(part.ptr())) throw nb::type_error("max_version: expected integers");
  return nb::cast<std::int64_t>(max_version[0]) >= 1;
}

// The consumer's stream, numbered as by DLPack.
std::optional<std::uint64_t> stream_of(const nb::object& stream, bool on_host) {
  if (stream.is_none()) return std::nullopt;
  if (on_host) buffer_error("stream: a batch in host memory takes None only");
  if (!PyLong_Check(stream.ptr()) || PyBool_Check(stream.ptr())) buffer_error("stream: expected None or an integer");
  const long long number = PyLong_AsLongLong(stream.ptr());
  if (number == -1 && PyErr_Occurred() == nullptr) return Batch::kAnyStream;
  if (PyErr_Occurred() != nullptr || number < 0) {
    PyErr_Clear();
    buffer_error("stream: expected None, -1, 0, 1, 2 or a handle");
  }
  return static_cast<std::uint64_t>(number);
}

DlDevice device_of(const nb::object& dl_device) {
  if (!PyTuple_Check(dl_device.ptr()) || PyTuple_Size(dl_device.ptr()) != 2)
    buffer_error("dl_device: expected None or a tuple (type, index)");
  return {nb::cast<std::int32_t>(nb::int_(dl_device[0])), nb::cast<std::int32_t>(nb::int_(dl_device[1]))};
}

Batch::Export export_of(const Batch& batch, const nb::object& stream, const nb::object& dl_device,
                        const nb::object& copy) {
  const DlDevice own = batch.device();
  Batch::Export how;
  how.stream = stream_of(stream, batch.on_host());
  const DlDevice asked = dl_device.is_none() ? own : device_of(dl_device);
  if (asked != own) {
    if (asked != DlDevice{1, 0})
      buffer_error("dl_device: a batch is exported to its own device, or to the host (1, 0)");
    how.to_host = true;
  }
  how.copy = !copy.is_none() && nb::cast<bool>(copy);
  if (how.to_host && !copy.is_none() && !how.copy)
    buffer_error("copy: a batch on a GPU reaches the host by a copy only");
  return how;
}

template <class Tensor>
nb::object capsule_of(Tensor* tensor, const char* name, PyCapsule_Destructor drop) {
  PyObject* capsule = PyCapsule_New(tensor, name, drop);
  if (capsule == nullptr) tensor->deleter(tensor);
  return nb::steal(capsule);
}

}  // namespace

nb::object dlpack_capsule(const Batch& batch, nb::object stream, nb::object max_version, nb::object dl_device,
                          nb::object copy) {
  const bool versioned = wants_versioned(max_version);
  const Batch::Export how = export_of(batch, stream, dl_device, copy);
  if (versioned) return capsule_of(batch.to_dlpack_versioned(how), "dltensor_versioned", drop_versioned_capsule);
  return capsule_of(batch.to_dlpack(how), "dltensor", drop_capsule);
}

}  // namespace damacy::python
