// A tile of a copy plan at its addresses, and the way that a block takes with it, which is the same for all its
// threads. One source for host and device. Knows records and alignments; moves nothing.
#pragma once

#include "damacy/copy/cuda/words.h"
#include "damacy/copy/gpu_plan/tile_record.h"

namespace damacy::copy_cuda {

using copy::Piece;

inline constexpr u32 kPlanThreads = 256;

enum class Way : u32 { parts_1, parts_2, parts_4, parts_8, parts_16, windows, transposed, elements, bytes };

// A tile at its addresses. In registers.
struct TileWork {
  TileRecord record;
  u64 src;  // addresses of the first elements
  u64 dst;

  DAMACY_ELEMENT TileWork(const TileRecord& tile, u64 src_base, u64 dst_base)
      : record(tile),
        src(src_base + static_cast<u64>(tile.src_offset)),
        dst(dst_base + static_cast<u64>(tile.dst_offset)) {}

  DAMACY_ELEMENT u32 row_bytes() const { return record.extent[3] * record.to_bytes; }
  DAMACY_ELEMENT u32 count() const { return record.rows * record.extent[3]; }
};

// Negation of parts: bits turned, then 1 added. Floating point: the signs of all elements in 8 bytes.
struct Negation {
  u64 flip = 0;
  u64 add = 0;
};

DAMACY_ELEMENT Negation negation_of(const TileRecord& record) {
  if (!record.negate) return {};
  switch (record.to) {
    case Dtype::f64:
    case Dtype::complex128:
      return {0x8000000000000000u, 0};
    case Dtype::f32:
    case Dtype::complex64:
      return {0x8000000080000000u, 0};
    case Dtype::f16:
    case Dtype::bf16:
      return {0x8000800080008000u, 0};
    default:
      return {~u64{0}, 1};
  }
}

DAMACY_ELEMENT Way way_of(const TileWork& work) {
  const TileRecord& record = work.record;
  const u32 to = record.to_bytes, from = record.from_bytes;
  const u32 src_bits = static_cast<u32>(work.src & 15) | record.src_bits;
  const u32 dst_bits = static_cast<u32>(work.dst & 15) | record.dst_bits;
  const u32 src_part = from == 16 ? 8 : from, dst_part = to == 16 ? 8 : to;
  if ((src_bits & (src_part - 1)) != 0 || (dst_bits & (dst_part - 1)) != 0) return Way::bytes;
  if (record.from != record.to || record.add) return Way::elements;
  if (record.lie == Lie::turned) return Way::transposed;
  const u32 bits = src_bits | dst_bits;
  if (record.lie == Lie::runs && work.row_bytes() >= kPartsLeast && negation_of(record).add == 0) {
    const u32 row_bits = bits | work.row_bytes();
    if ((row_bits & 15) == 0) return Way::parts_16;
    if ((row_bits & 7) == 0) return Way::parts_8;
    if (to < 8 && !record.negate) return Way::windows;
  }
  switch (to) {
    case 1:
      return Way::parts_1;
    case 2:
      return Way::parts_2;
    case 4:
      return Way::parts_4;
    case 8:
      return Way::parts_8;
    default:
      return (bits & 15) == 0 ? Way::parts_16 : Way::elements;
  }
}

struct Offsets {
  i64 src;
  i64 dst;
};

// Of a row: all axes but the last.
DAMACY_ELEMENT Offsets row_offsets(const TileRecord& record, u32 row) {
  if (record.rows == record.extent[2]) {  // most tiles are flat, and need no divisions
    const auto c = static_cast<i32>(row);
    return {product_and(c, record.src_stride[2], 0), product_and(c, record.dst_stride[2], 0)};
  }
  const u32 second = divide(row, record.by[1]);
  const u32 third = divide(second, record.by[0]);
  const auto c = static_cast<i32>(row - second * record.extent[2]);
  const auto b = static_cast<i32>(second - third * record.extent[1]);
  const auto a = static_cast<i32>(third);
  const auto along = [&](const i32* strides) {
    return product_and(c, strides[2], product_and(b, strides[1], product_and(a, strides[0], 0)));
  };
  return {along(record.src_stride), along(record.dst_stride)};
}

struct Addresses {
  u64 src;
  u64 dst;
};

// Of a row's first element.
DAMACY_ELEMENT Addresses row_addresses(const TileWork& work, u32 row) {
  const Offsets at = row_offsets(work.record, row);
  return {work.src + static_cast<u64>(at.src), work.dst + static_cast<u64>(at.dst)};
}

}  // namespace damacy::copy_cuda
