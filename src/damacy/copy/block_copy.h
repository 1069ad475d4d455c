// A block copy: elements of an N-D source box go to an N-D destination box of the same extents, each side with its own
// signed byte strides, each element through an operation. A transpose, F order, a flip, a broadcast (source stride 0)
// are strides; byte order and casts are the operation. Knows bytes and strides; not zarr, not threads, not devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"

namespace damacy {

struct CopyOp {
  Dtype from = Dtype::u8;
  Dtype to = Dtype::u8;     // equal to `from`: the bits move
  bool swap_bytes = false;  // the source is in the other byte order (a scalar component at a time)

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

// Same elements to the same places, in the shortest form: no unit axes, destination strides positive and decreasing,
// axes that run on in both sides merged. An empty copy gets one axis of extent 0. No element: rank 0 is one element.
void normalise(BlockCopy& copy) noexcept;

// Whether a conversion `from` -> `to` exists: any batch dtype to any batch dtype, and every type to itself.
[[nodiscard]] constexpr bool has_conversion(Dtype from, Dtype to) noexcept {
  return from == to || (is_batch_dtype(from) && is_batch_dtype(to));
}

// Runs a normalised copy. Every byte it touches is checked to lie inside the spans first (Error inval: a bug upstream).
// The source may be at any alignment. Source and destination do not overlap.
// `written_together`: bytes that are written before any of them is read, where that is more than `dst` (a batch, of
// which `dst` is a row). What no cache would keep until then is stored past it.
void run_block_copy(const BlockCopy& copy, std::span<const std::byte> src, std::span<std::byte> dst,
                    std::size_t written_together = 0);

}  // namespace damacy
