// Blocks of memory of Python arrays: allocated here, or imported from other libraries by DLPack. Arrays, views and
// capsules share a block; the last owner frees it. Knows addresses and owners; not elements.
#pragma once

#include <cstdint>
#include <memory>

#include "bindings.h"

namespace damacy::python {

struct MemoryBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::shared_ptr<void> owner;
  // For damacy._device.exchange: whether other libraries use the memory too, and the stream of its owner, as numbered
  // there.
  bool is_shared = false;
  std::int64_t stream = 0;
};

// A Python object as owner of memory. Its last reference may be dropped on any thread without the GIL; a later call
// that holds the GIL then releases the object.
[[nodiscard]] std::shared_ptr<void> keep_alive(nb::object object);
// Releases the objects that wait for a call with the GIL.
void release_waiting() noexcept;

void bind_device_queue(nb::module_& m);

}  // namespace damacy::python
