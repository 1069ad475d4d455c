#include "dlpack_exchange.h"

#include <utility>
#include <vector>

#include "cufile_errors.h"
#include "damacy/core/formatted.h"
#include "foreign_tensor.h"

namespace damacy::python {
namespace {

constexpr std::uint32_t kMajor = 1;
constexpr std::uint8_t kComplex = 5;
constexpr const char* kCapsule = "dlpack_exchange_api";

// The first of the chain whose layout is known.
const DLPackExchangeAPI* of_known_version(const DLPackExchangeAPIHeader* header) {
  while (header != nullptr && header->version.major != kMajor) header = header->prev_api;
  const auto* api = reinterpret_cast<const DLPackExchangeAPI*>(header);  // the header is its first member
  const bool is_whole =
      api != nullptr && api->managed_tensor_from_py_object_no_sync != nullptr && api->current_work_stream != nullptr;
  return is_whole ? api : nullptr;
}

[[noreturn]] void throw_failure(nb::handle object) {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  raise(PyExc_RuntimeError, formatted("DLPack: the exchange function of {} failed without an exception",
                                      nb::type_name(object.type()).c_str()));
}

// Empty: the library failed.
std::optional<std::uint64_t> work_stream(const DLPackExchangeAPI& api, const DLDevice& device) {
  void* stream = nullptr;
  if (api.current_work_stream(device.device_type, device.device_id, &stream) != 0) return std::nullopt;
  return stream == nullptr ? kLegacyStream : reinterpret_cast<std::uint64_t>(stream);
}

// The fields of an object, which point into it. Empty, without an exception: the library has no such function, or it
// failed.
std::optional<DLTensor> borrowed_tensor(const DLPackExchangeAPI& api, nb::handle object) {
  DLTensor found{};
  if (api.dltensor_from_py_object_no_sync != nullptr && api.dltensor_from_py_object_no_sync(object.ptr(), &found) == 0)
    return found;
  PyErr_Clear();
  return std::nullopt;
}

}  // namespace

const DLPackExchangeAPI* exchange_api(nb::handle type) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  static auto& known = *new std::vector<std::pair<PyObject*, const DLPackExchangeAPI*>>;  // the types live on
  for (const auto& [seen, api] : known)
    if (seen == type.ptr()) return api;
  const nb::object capsule = nb::steal(PyObject_GetAttr(type.ptr(), name));
  if (!capsule.is_valid()) PyErr_Clear();
  if (!capsule.is_valid() || PyCapsule_IsValid(capsule.ptr(), kCapsule) == 0) return nullptr;
  const auto* const api =
      of_known_version(static_cast<DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule)));
  constexpr std::size_t kMostKnown = 64;
  if (api != nullptr && known.size() < kMostKnown) known.emplace_back(type.inc_ref().ptr(), api);
  return api;
}

std::optional<ArrayBytes> tensor_bytes(const DLPackExchangeAPI& api, nb::handle tensor) {
  const auto borrowed = borrowed_tensor(api, tensor);
  if (!borrowed) return std::nullopt;
  const DLTensor& found = *borrowed;
  // A complex tensor may stand for conjugates of what is stored. Elements of parts of a byte have their own layout.
  if (found.dtype.code == kComplex || found.dtype.bits % 8 != 0) return std::nullopt;
  const ForeignMemory memory = checked_memory(found);
  if (!is_dense(found)) return std::nullopt;
  if (is_on_host(found.device)) return exported_bytes(api, tensor);
  if (!is_on_gpu(found.device)) return std::nullopt;
  const auto stream = work_stream(api, found.device);
  if (!stream) {  // in a forked child: the driver's error, which follows, says more
    PyErr_Clear();
    return std::nullopt;
  }
  return ArrayBytes{memory.bytes > 0 ? memory.address : 0, memory.bytes, false, stream, true, {}};
}

ArrayBytes exported_bytes(const DLPackExchangeAPI& api, nb::handle object) {
  DLManagedTensorVersioned* exported = nullptr;
  if (api.managed_tensor_from_py_object_no_sync(object.ptr(), &exported) != 0 || exported == nullptr)
    throw_failure(object);
  nb::object owner = owner_of(exported);
  if (exported->version.major != kMajor)
    raise(PyExc_NotImplementedError,
          formatted("DLPack major version {} is not supported, only 0 and 1", exported->version.major));
  const DLTensor& tensor = exported->dl_tensor;
  if (!is_on_host(tensor.device) && !is_on_gpu(tensor.device))
    raise(PyExc_NotImplementedError,
          formatted("DLPack device type {} is not supported, only CPU, CUDA, CUDA host and CUDA managed",
                    tensor.device.device_type));
  const ForeignMemory memory = checked_memory(tensor);
  if (!is_dense(tensor)) raise(PyExc_ValueError, "Array must be contiguous");
  const auto stream = is_on_gpu(tensor.device) ? work_stream(api, tensor.device) : kLegacyStream;
  if (!stream) throw_failure(object);
  return {memory.bytes > 0 ? memory.address : 0,
          memory.bytes,
          (exported->flags & kDlpackFlagIsReadOnly) != 0,
          stream,
          is_on_gpu(tensor.device),
          std::move(owner)};
}

std::optional<ArrayLayout> tensor_layout(const DLPackExchangeAPI& api, nb::handle tensor) {
  const auto found = borrowed_tensor(api, tensor);
  const auto dtype = found ? find_dtype(found->dtype) : std::nullopt;
  const bool is_host = found && found->device.device_type == kDlpackCpu;
  // A complex tensor may stand for conjugates of what is stored.
  if (!dtype || !is_batch_dtype(*dtype) || (!is_host && found->device.device_type != kDlpackCuda) || found->ndim < 0 ||
      found->ndim > static_cast<std::int32_t>(kMaxRank) ||
      (found->ndim > 0 && (found->shape == nullptr || found->strides == nullptr)))
    return std::nullopt;
  ArrayLayout layout{reinterpret_cast<std::uint64_t>(found->data) + found->byte_offset, {}, {}, *dtype, {}, true, {}};
  if (!is_host) layout.device = found->device.device_id;
  bool is_empty = false;
  for (std::int32_t axis = 0; axis < found->ndim; ++axis) {
    const std::int64_t extent = found->shape[axis], stride = found->strides[axis];
    if (extent < 0 || !is_usual(extent) || !is_usual(stride)) return std::nullopt;
    layout.shape.push_back(extent);
    layout.strides.push_back(stride * static_cast<std::int64_t>(size_of(*dtype)));
    is_empty = is_empty || extent == 0;
  }
  if (!is_empty && found->data == nullptr) return std::nullopt;
  return layout;
}

}  // namespace damacy::python
