// Checks the fields of a DLPack tensor from another library before they are used. Knows the structure; not who owns it.
#pragma once

#include <cstdint>

#include "bindings.h"
#include "damacy/device/dlpack_abi.h"

namespace damacy::python {

struct ForeignTensor {
  std::uint64_t address;
  std::uint64_t bytes;  // of the elements, without what strides skip
  std::uint64_t item_bytes;
  nb::tuple shape;
  nb::object strides;  // in elements, or None
};

// ValueError for numbers that no memory has, TypeError for elements that are no whole bytes.
[[nodiscard]] ForeignTensor checked(const DLTensor& tensor);

}  // namespace damacy::python
