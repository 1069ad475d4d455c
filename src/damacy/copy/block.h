// What a block copy is: the boxes' extents and byte strides on both sides, and the operation on each element. Knows
// bytes and strides; copies nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"

namespace damacy {

struct Finish;

struct CopyOp {
  Dtype from = Dtype::u8;
  Dtype to = Dtype::u8;            // equal to `from`: the bits move
  bool swap_bytes = false;         // the source is in the other byte order (a scalar component at a time)
  const Finish* finish = nullptr;  // what else is done to an element; outlives the copy

  friend bool operator==(const CopyOp&, const CopyOp&) = default;
};

struct CopyAxis {
  std::int64_t extent;
  std::int64_t src_stride;  // bytes, signed
  std::int64_t dst_stride;  // bytes, signed
};

struct BlockCopy {
  std::int64_t src_offset = 0;  // bytes from the source's base to the first element
  std::int64_t dst_offset = 0;
  CopyOp op;
  std::uint32_t rank = 0;
  std::array<CopyAxis, kMaxRank> axes;  // outermost first; only the first `rank` are set

  std::span<CopyAxis> used() noexcept { return {axes.data(), rank}; }
  std::span<const CopyAxis> used() const noexcept { return {axes.data(), rank}; }
};

struct SourcedCopy {
  BlockCopy copy;
  std::span<const std::byte> src;
};

// Same elements to the same places, in the shortest form: no unit axes, destination strides positive and decreasing,
// axes that run on in both sides merged. An empty copy gets one axis of extent 0. No element: rank 0 is one element.
void normalise(BlockCopy& copy) noexcept;

// Whether a conversion `from` -> `to` exists: any batch dtype to any batch dtype, and every type to itself.
[[nodiscard]] constexpr bool has_conversion(Dtype from, Dtype to) noexcept {
  return from == to || (is_batch_dtype(from) && is_batch_dtype(to));
}

}  // namespace damacy
