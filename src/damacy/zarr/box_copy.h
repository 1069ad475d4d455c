// Copies from chunks of an array to where a box of it goes: boxes become block copies. Pure: boxes and strides in,
// copies out.
#pragma once

#include "damacy/codec/ranges.h"
#include "damacy/copy/block.h"
#include "damacy/core/dims.h"
#include "damacy/zarr/array.h"

namespace damacy {

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
