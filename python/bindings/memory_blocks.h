// Pieces of memory that Python arrays lie in: ours, or of other libraries by DLPack. Shared by arrays, views and
// capsules; the last to let go frees. Knows addresses and owners; not elements.
#pragma once

#include <cstdint>
#include <memory>

#include "bindings.h"

namespace damacy::python {

struct MemoryBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::shared_ptr<void> owner;
};

// A Python object as owner. The last to let go may be any thread, without the GIL: the object is released by a later
// call with it.
[[nodiscard]] std::shared_ptr<void> keep_alive(nb::object object);
// Releases what waits for the GIL.
void release_waiting() noexcept;

void bind_device_queue(nb::module_& m);

}  // namespace damacy::python
