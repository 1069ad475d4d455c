// DLPack capsules of batches. The deleters behind them are native: no GIL, no Python object, any thread, also after
// exit.
#include "damacy/pipeline/dlpack_abi.h"

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

}  // namespace

nb::object dlpack_capsule(const Batch& batch, nb::object stream, nb::object max_version, nb::object dl_device,
                          nb::object copy) {
  const DlDevice own = batch.device();
  const bool versioned = wants_versioned(max_version);
  if (own.type == 1 && !stream.is_none()) buffer_error("stream: a batch in host memory takes None only");
  if (!dl_device.is_none()) {
    if (!PyTuple_Check(dl_device.ptr()) || PyTuple_Size(dl_device.ptr()) != 2)
      buffer_error("dl_device: expected None or a tuple (type, index)");
    const DlDevice asked{nb::cast<std::int32_t>(nb::int_(dl_device[0])),
                         nb::cast<std::int32_t>(nb::int_(dl_device[1]))};
    if (asked != own) buffer_error("dl_device: a batch in host memory is exported to (1, 0) only");
  }
  const bool fresh = !copy.is_none() && nb::cast<bool>(copy);
  if (versioned) {
    DLManagedTensorVersioned* tensor = batch.to_dlpack_versioned(fresh);
    PyObject* capsule = PyCapsule_New(tensor, "dltensor_versioned", drop_versioned_capsule);
    if (capsule == nullptr) tensor->deleter(tensor);
    return nb::steal(capsule);
  }
  DLManagedTensor* tensor = batch.to_dlpack(fresh);
  PyObject* capsule = PyCapsule_New(tensor, "dltensor", drop_capsule);
  if (capsule == nullptr) tensor->deleter(tensor);
  return nb::steal(capsule);
}

}  // namespace damacy::python
