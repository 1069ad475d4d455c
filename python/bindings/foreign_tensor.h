// Validates the fields of a DLPack tensor from another library. Knows the structure; not its owner.
#pragma once

#include <cstdint>

#include "bindings.h"
#include "damacy/device/dlpack_abi.h"

namespace damacy::python {

struct ForeignTensor {
  std::uint64_t address;
  std::uint64_t bytes;  // of the elements, without gaps between them
  std::uint64_t item_bytes;
  nb::tuple shape;
  nb::object strides;  // in elements, or None
};

// ValueError for impossible sizes and addresses, TypeError for elements that are not whole bytes.
[[nodiscard]] ForeignTensor checked(const DLTensor& tensor);

}  // namespace damacy::python
