// DLPack's binary interface, versions 0.x and 1.x: the structures that cross between libraries, and the functions that
// a library offers in C, as the standard lays them out. Global names, because that is what others forward-declare. Also
// the standard's numbers of element types, devices and flags.
#pragma once

#include <cstdint>
#include <optional>

#include "damacy/core/dtype.h"

extern "C" {

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

struct DLPackExchangeAPIHeader {
  DLPackVersion version;
  DLPackExchangeAPIHeader* prev_api;  // of an older version, or null
};

// The attribute `__dlpack_c_exchange_api__` of a type: a capsule "dlpack_exchange_api". Objects are of Python. The
// functions need the GIL, and return 0, or -1 with a Python exception set (the allocator reports by `set_error`). None
// of them orders streams.
struct DLPackExchangeAPI {
  DLPackExchangeAPIHeader header;
  int (*managed_tensor_allocator)(DLTensor* prototype, DLManagedTensorVersioned** tensor, void* context,
                                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_tensor_from_py_object_no_sync)(void* object, DLManagedTensorVersioned** tensor);
  int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor, void** object);
  int (*dltensor_from_py_object_no_sync)(void* object, DLTensor* tensor);  // may be null
  int (*current_work_stream)(std::int32_t device_type, std::int32_t device_id, void** stream);
};

}  // extern "C"

namespace damacy {

inline constexpr std::uint64_t kDlpackFlagIsReadOnly = 1, kDlpackFlagIsCopied = 2;
inline constexpr std::int32_t kDlpackCpu = 1, kDlpackCuda = 2, kDlpackCudaHost = 3, kDlpackCudaManaged = 13;
inline constexpr std::uint64_t kLegacyStream = 1;  // of CUDA, in DLPack and in __cuda_array_interface__

[[nodiscard]] constexpr bool is_on_host(const DLDevice& device) noexcept {
  return device.device_type == kDlpackCpu || device.device_type == kDlpackCudaHost;
}

[[nodiscard]] constexpr bool is_on_gpu(const DLDevice& device) noexcept {
  return device.device_type == kDlpackCuda || device.device_type == kDlpackCudaManaged;
}

// Dates and durations are integers in DLPack.
[[nodiscard]] constexpr DLDataType dl_type(Dtype type) noexcept {
  constexpr std::uint8_t kCodes[] = {2, 4, 2, 2, 1, 0, 1, 0, 1, 0, 1, 0, 6, 5, 5, 0, 0};  // by the numbers of Dtype
  return {kCodes[static_cast<int>(type)], static_cast<std::uint8_t>(size_of(type) * 8), 1};
}

// Empty: none of ours.
[[nodiscard]] constexpr std::optional<Dtype> find_dtype(const DLDataType& type) noexcept {
  for (Dtype known{}; known < Dtype::datetime64; known = static_cast<Dtype>(static_cast<int>(known) + 1))
    if (const DLDataType as = dl_type(known); as.code == type.code && as.bits == type.bits && as.lanes == type.lanes)
      return known;
  return std::nullopt;
}

}  // namespace damacy
