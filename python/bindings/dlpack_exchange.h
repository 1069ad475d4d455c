// Memory of a Python object by C functions of its library, without Python code: DLPack's exchange API, which the
// object's type has as an attribute (torch 2.10 and later). Knows its versions, and what memory file I/O can use.
// Orders no streams, and calls no CUDA. The GIL must be held.
#pragma once

#include <cstdint>
#include <optional>

#include "bindings.h"
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

// Of the object's type; null: it has none, or of other versions. It is looked up once for a type.
const DLPackExchangeAPI* exchange_api(nb::handle type);

// The fields of an object of the type, which point into it. Empty, without an exception: the library has no such
// function, or it failed.
std::optional<DLTensor> borrowed_tensor(const DLPackExchangeAPI& api, nb::handle object);

// Of a torch.Tensor without a gradient. Empty, without an exception: unusual, or the library failed;
// damacy._fileio.memory finds out what it is.
std::optional<ArrayBytes> tensor_bytes(const DLPackExchangeAPI& api, nb::handle tensor);

// Of any object of the type. The stream is the one in which the library works now. Throws the library's exception,
// NotImplementedError for other devices, ValueError if there are gaps between elements.
ArrayBytes exported_bytes(const DLPackExchangeAPI& api, nb::handle object);

}  // namespace damacy::python
