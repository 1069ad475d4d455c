// Where the elements of chunks go: a batch in production, or the output of a selection; and the copies that bring boxes
// of an array there. Knows memory, its parts and boxes; not how chunks are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "damacy/codec/ranges.h"
#include "damacy/copy/block.h"
#include "damacy/core/dims.h"
#include "damacy/device/device.h"
#include "damacy/zarr/array.h"

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

// Row-major memory for the elements of a box; their type may differ from the array's.
struct BoxMemory {
  const Box& box;
  const Dims& strides;     // bytes
  std::int64_t begin = 0;  // where its first element lies
};

// The type of an array's elements when their bits are copied: a copy of bool turns all bytes but 0 into 1.
[[nodiscard]] Dtype type_of_bits(Dtype dtype) noexcept;

// The copy of `part`, which lies in both boxes, from the decoded chunk at `chunk`. Normalised.
[[nodiscard]] BlockCopy copy_of_box(const Array& array, const Box& chunk, const Box& part, const BoxMemory& to,
                                    const CopyOp& op);
// The copy that fills `part` with one element. Normalised.
[[nodiscard]] BlockCopy fill_of_box(const Box& part, const BoxMemory& to, const CopyOp& op);

// The byte interval of a decoded chunk that holds `part`, which lies in the chunk's box.
[[nodiscard]] ByteRange bytes_of(const Array& array, const Box& chunk, const Box& part) noexcept;

}  // namespace damacy
