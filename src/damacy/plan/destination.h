// Where the elements of chunks go: a batch in production, or the output of a selection. Knows memory and its parts; not
// chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "damacy/copy/block.h"
#include "damacy/device/device.h"

namespace damacy {

class Destination {
 public:
  virtual ~Destination() = default;
  // Before the first write on a device; on the host the owner does it. Idempotent; one thread at a time. May wait for
  // memory, and throws Error(shutdown) when the wait ends without it. Returns the events that must have passed on the
  // device before the first write.
  virtual std::span<const Event> claim() = 0;
  // What was claimed: all parts, on the host or on a device. Its address is aligned as devices align memory.
  virtual std::span<std::byte> memory() const noexcept = 0;
  // So many elements of a part were written. Each element is reported once.
  virtual void placed(std::uint32_t part, std::int64_t elements) noexcept = 0;
};

// A copy of elements of a chunk to a part of a destination. A view.
struct Use {
  std::uint32_t part;     // of a destination that has several: one box of a sample
  const BlockCopy& copy;  // normalised; offsets count from the decoded chunk and from the destination's first byte

  std::int64_t elements() const noexcept {
    std::int64_t count = 1;
    for (const CopyAxis& axis : copy.used()) count *= axis.extent;
    return count;
  }
};

}  // namespace damacy
