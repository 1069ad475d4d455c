#include "memory_blocks.h"

#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/device/dlpack_abi.h"
#include "foreign_tensor.h"

namespace damacy::python {
namespace {

struct Waiting {
  Mutex mutex;
  std::vector<PyObject*> objects DAMACY_GUARDED_BY(mutex);
};
Waiting& waiting() {
  static auto* const all = new Waiting;  // blocks may outlive static objects
  return *all;
}

MemoryBlock host_block(std::uint64_t bytes) {
  release_waiting();
  auto buffer = std::make_shared<HostBuffer>(std::make_shared<PageAlloc>(), std::max<std::uint64_t>(bytes, 1));
  const auto address = reinterpret_cast<std::uint64_t>(buffer->data());
  return {address, bytes, std::move(buffer)};
}

template <class Managed>
std::shared_ptr<void> owner_of(Managed* managed) {
  return {managed, [](Managed* m) {
            if (m->deleter != nullptr) m->deleter(m);
          }};
}

nb::tuple described(const DLTensor& tensor, std::shared_ptr<void> owner, bool read_only) {
  const ForeignTensor said = checked(tensor);
  MemoryBlock block{said.address, 0, std::move(owner)};
  return nb::make_tuple(std::move(block), tensor.device.device_type, tensor.device.device_id, tensor.dtype.code,
                        tensor.dtype.bits, tensor.dtype.lanes, said.shape, said.strides, read_only);
}

// Consumes a capsule: its tensor is now deleted by this library.
nb::tuple from_dlpack(nb::handle capsule) {
  release_waiting();
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major > 1) {
      PyErr_SetString(PyExc_BufferError, "DLPack: major versions above 1 are not supported");
      throw nb::python_error();
    }
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    return described(managed->dl_tensor, owner_of(managed), (managed->flags & kDlpackFlagIsReadOnly) != 0);
  }
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) throw nb::python_error();
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return described(managed->dl_tensor, owner_of(managed), false);
}

template <class Managed>
struct Exported {  // freed by the deleter of a capsule; holds no Python object
  Managed managed{};
  std::shared_ptr<void> owner;
  std::vector<std::int64_t> shape, strides;
};

template <class Managed>
nb::object capsule_of(std::unique_ptr<Exported<Managed>> exported, const char* name, PyCapsule_Destructor drop) {
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  PyObject* capsule = PyCapsule_New(&exported->managed, name, drop);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(exported.release());
  return nb::steal(capsule);
}

template <class Managed>
std::unique_ptr<Exported<Managed>> exported_of(const DLTensor& tensor, const std::shared_ptr<void>& owner,
                                               std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->owner = owner;
  exported->shape = std::move(shape);
  exported->strides = std::move(strides);
  exported->managed.dl_tensor = tensor;
  exported->managed.dl_tensor.shape = exported->shape.data();
  exported->managed.dl_tensor.strides = exported->strides.data();
  return exported;
}

template <class Managed>
void drop(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

// `strides` in elements; `flags` as in DLPack.
nb::object to_dlpack(const MemoryBlock& block, std::uint64_t address, std::vector<std::int64_t> shape,
                     std::vector<std::int64_t> strides, std::vector<int> device_and_type, bool versioned,
                     std::uint64_t flags) {
  DLTensor tensor{};
  tensor.data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  tensor.device = {device_and_type.at(0), device_and_type.at(1)};
  tensor.dtype = {static_cast<std::uint8_t>(device_and_type.at(2)), static_cast<std::uint8_t>(device_and_type.at(3)),
                  1};
  tensor.ndim = static_cast<std::int32_t>(shape.size());
  if (!versioned)
    return capsule_of(exported_of<DLManagedTensor>(tensor, block.owner, std::move(shape), std::move(strides)),
                      "dltensor", [](PyObject* c) { drop<DLManagedTensor>(c, "dltensor"); });
  auto exported = exported_of<DLManagedTensorVersioned>(tensor, block.owner, std::move(shape), std::move(strides));
  exported->managed.version = {1, 0};
  exported->managed.flags = flags;
  return capsule_of(std::move(exported), "dltensor_versioned",
                    [](PyObject* c) { drop<DLManagedTensorVersioned>(c, "dltensor_versioned"); });
}

}  // namespace

std::shared_ptr<void> keep_alive(nb::object object) {
  return {object.release().ptr(), [](PyObject* kept) {
            Waiting& all = waiting();
            const Lock lock(all.mutex);
            all.objects.push_back(kept);
          }};
}

void release_waiting() noexcept {
  std::vector<PyObject*> objects;
  {
    Waiting& all = waiting();
    const Lock lock(all.mutex);
    std::swap(objects, all.objects);
  }
  for (PyObject* object : objects) Py_DECREF(object);
}

void bind_memory_blocks(nb::module_& m) {
  nb::class_<MemoryBlock>(m, "MemoryBlock")
      .def_ro("address", &MemoryBlock::address)
      .def_ro("bytes", &MemoryBlock::bytes)
      .def_rw("is_shared", &MemoryBlock::is_shared)
      .def_rw("stream", &MemoryBlock::stream);
  m.def("host_block", &host_block, nb::arg("size"), "New host memory, aligned to 4096 bytes.");
  m.def(
      "foreign_block",
      [](nb::object owner, std::uint64_t address, std::uint64_t size) {
        release_waiting();
        return MemoryBlock{address, size, keep_alive(std::move(owner))};
      },
      nb::arg("owner"), nb::arg("address"), nb::arg("size"));
  m.def("from_dlpack", &from_dlpack, nb::arg("capsule"));
  m.def("to_dlpack", &to_dlpack, nb::arg("block"), nb::arg("address"), nb::arg("shape"), nb::arg("strides"),
        nb::arg("device_and_type"), nb::arg("versioned"), nb::arg("flags"));
  bind_device_queue(m);
}

}  // namespace damacy::python
