// Validates the fields of a DLPack tensor from another library. Knows the structure; not who owns the memory.
#pragma once

#include <cstdint>

#include "bindings.h"
#include "damacy/device/dlpack_abi.h"

namespace damacy::python {

struct ForeignMemory {
  std::uint64_t address;
  std::uint64_t bytes;  // of the elements, without gaps between them
  std::uint64_t item_bytes;
};

struct ForeignTensor : ForeignMemory {
  nb::tuple shape;
  nb::object strides;  // in elements, or None
};

// ValueError for impossible sizes and addresses, TypeError for elements that are not whole bytes.
[[nodiscard]] ForeignTensor checked(const DLTensor& tensor);
[[nodiscard]] ForeignMemory checked_memory(const DLTensor& tensor);

// Whether there are no gaps between the elements of a checked tensor, in C or in F order.
[[nodiscard]] bool is_dense(const DLTensor& tensor);

// Keeps a tensor alive, and calls its deleter at the end.
template <class Managed>
nb::object owner_of(Managed* tensor) {
  return nb::capsule(tensor, [](void* held) noexcept {
    auto* owned = static_cast<Managed*>(held);
    if (owned->deleter != nullptr) owned->deleter(owned);
  });
}

}  // namespace damacy::python
