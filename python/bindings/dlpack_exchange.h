// Memory of a Python object by C functions of its library, without Python code: DLPack's exchange API, which the
// object's type has as an attribute (torch 2.10 and later). Knows its versions, and what memory file I/O can use.
// Orders no streams, and calls no CUDA. The GIL must be held.
#pragma once

#include <cstdint>
#include <optional>

#include "bindings.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/device/dlpack_abi.h"

namespace damacy::python {

struct ArrayBytes {
  std::uint64_t pointer = 0;  // 0 if it has no elements
  std::uint64_t size = 0;
  bool read_only = false;
  std::optional<std::uint64_t> stream;  // of the memory's last use, if the object or its library says so
  bool on_device = true;                // according to the object; the driver is not asked
  nb::object owner;                     // keeps the memory alive; empty: the object does
};

// Where an array's elements are.
struct ArrayLayout {
  std::uint64_t address = 0;  // 0 if it has no elements
  Dims shape;
  Dims strides;  // bytes
  Dtype dtype = Dtype::f64;
  std::optional<int> device;  // none: host memory
  bool is_writable = true;
  std::optional<std::uint64_t> stream;  // that the array names

  bool operator==(const ArrayLayout&) const = default;
};

// Of an extent or a stride: products with sizes of elements do not overflow.
constexpr bool is_usual(std::int64_t value) noexcept {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  return value <= kLargest && value >= -kLargest;
}

// Of the object's type; null: it has none, or of other versions. Remembered for the first 64 types that have one.
const DLPackExchangeAPI* exchange_api(nb::handle type);

// Of a torch.Tensor without a gradient. Empty, with no exception set: unusual, or the library failed;
// damacy._fileio.memory finds out what it is. Throws as checked_memory() and, of host memory, as exported_bytes().
std::optional<ArrayBytes> tensor_bytes(const DLPackExchangeAPI& api, nb::handle tensor);

// Of a torch.Tensor, by one call in place of nine. Empty, with no exception set: as tensor_bytes(). Does not throw.
std::optional<ArrayLayout> tensor_layout(const DLPackExchangeAPI& api, nb::handle tensor);

// Of any object of the type. The stream is the one in which the library works now. Throws the library's exception,
// NotImplementedError for other devices, ValueError if there are gaps between elements.
ArrayBytes exported_bytes(const DLPackExchangeAPI& api, nb::handle object);

}  // namespace damacy::python
