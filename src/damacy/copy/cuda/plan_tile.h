// Runs one tile of a copy plan on a block. Moves parts or windows (tile_moves.h), or transposes through shared memory,
// so that both sides are accessed contiguously, or works element by element. One source for host and device. Knows
// addresses; not launches.
#pragma once

#include "damacy/copy/cuda/elements.h"
#include "damacy/copy/cuda/tile_moves.h"
#include "damacy/copy/element_ops.h"

namespace damacy::copy_cuda {

inline constexpr u32 kTransposeBytes = 32768 / 8 * 9;  // a tile, padded by an element a row

// Elements as bits. Those of 16 bytes are aligned to 8.
DAMACY_ELEMENT Bits load_bits(u64 address, u32 bytes) {
  if (bytes == 16) return {load<u64>(address), load<u64>(address + 8)};
  return {load_aligned(address, bytes), 0};
}

DAMACY_ELEMENT void store_bits(u64 address, const Bits& bits, u32 bytes) {
  store_part(address, bits.low, bytes == 16 ? 8 : bytes);
  if (bytes == 16) store_part(address + 8, bits.high, 8);
}

// A byte of memory that this launch may write.
DAMACY_ELEMENT u64 load_byte(u64 address) {
  return *reinterpret_cast<const volatile u8*>(address);
}

// At any alignment, and also where this launch writes.
DAMACY_ELEMENT Bits gather_bits(u64 address, u32 bytes) {
  Bits bits;
  for (u32 k = 0; k < bytes; ++k) (k < 8 ? bits.low : bits.high) |= load_byte(address + k) << (8 * (k % 8));
  return bits;
}

// An element of memory that this launch may write.
DAMACY_ELEMENT Bits own_bits(u64 address, u32 bytes) {
#ifdef __CUDA_ARCH__
  if (bytes == 8 && address % 8 == 0) return {*reinterpret_cast<const volatile u64*>(address), 0};
  if (bytes == 4 && address % 4 == 0) return {*reinterpret_cast<const volatile u32*>(address), 0};
  if (bytes == 2 && address % 2 == 0) return {*reinterpret_cast<const volatile u16*>(address), 0};
#endif
  return gather_bits(address, bytes);
}

template <class T>
DAMACY_ELEMENT T value_of(const Bits& bits) {
  if constexpr (sizeof(T) == 16)
    return {bits_as<double>(bits.low), bits_as<double>(bits.high)};
  else
    return bits_as<T>(static_cast<UnsignedOf<sizeof(T)>>(bits.low));
}

template <class T>
DAMACY_ELEMENT Bits bits_of(T value) {
  if constexpr (sizeof(T) == 16)
    return {bits_as<u64>(value.real), bits_as<u64>(value.imag)};
  else
    return {bits_as<UnsignedOf<sizeof(T)>>(value), 0};
}

// Negates and adds in the destination's type. A functor, as device code can call it by type.
struct Finish {
  const TileRecord& record;
  Bits& bits;
  u64 dst;
  template <class T>
  DAMACY_ELEMENT void operator()(T) const {
    T value = value_of<T>(bits);
    if (record.negate) value = copy::negated(value);
    if (record.add) value = copy::sum(value_of<T>(own_bits(dst, static_cast<u32>(sizeof(T)))), value);
    bits = bits_of(value);
  }
};

// What goes to `dst` for an element that was read.
template <bool kCasts>
DAMACY_ELEMENT Bits result_of(const TileRecord& record, Bits bits, u64 dst) {
  if constexpr (kCasts)
    if (record.from != record.to) bits.low = converted(bits.low, record.from, record.to);
  if (record.negate || record.add) copy::with_type(record.to, Finish{record, bits, dst});
  return bits;
}

template <bool kCasts>
DAMACY_ELEMENT void do_elements(const TileWork& work, bool aligned, u32 thread) {
  const TileRecord& record = work.record;
  const u32 from = record.from_bytes, count = work.count();
  DAMACY_NO_UNROLL
  for (u32 unit = thread; unit < count; unit += kPlanThreads) {
    const u32 row = divide(unit, record.by[2]);
    const auto i = static_cast<i32>(unit - row * record.extent[3]);
    const Offsets at = row_offsets(record, row);
    const u64 src = work.src + static_cast<u64>(product_and(i, record.src_stride[3], at.src));
    const u64 dst = work.dst + static_cast<u64>(product_and(i, record.dst_stride[3], at.dst));
    const Bits bits = aligned ? load_bits(src, from) : gather_bits(src, from);
    store_bits(dst, result_of<kCasts>(record, bits, dst), record.to_bytes);
  }
}

// Into `shared`, along the source: its rows one after the other, each with an element more, so that columns of words
// fall on different banks.
template <class T>
DAMACY_ELEMENT void take_transposed(const TileWork& work, T* shared, u32 thread) {
  const TileRecord& record = work.record;
  in_rounds<8>(
      work.count(), thread,
      [&](u32 unit, bool is_there) {
        HeldPart<T, u32> held;
        const u32 line = divide(unit, record.by[1]);
        const u32 plane = divide(line, record.by[2]);
        const u32 outer = divide(plane, record.by[0]);
        const auto c = static_cast<i32>(unit - line * record.extent[2]);
        const auto i = static_cast<i32>(line - plane * record.extent[3]);
        const auto b = static_cast<i32>(plane - outer * record.extent[1]);
        const i64 outside =
            product_and(static_cast<i32>(outer), record.src_stride[0], product_and(b, record.src_stride[1], 0));
        const i64 offset = product_and(c, record.src_stride[2], product_and(i, record.src_stride[3], outside));
        held.to = line * (record.extent[2] + 1) + static_cast<u32>(c);
        if (is_there) held.part = load<T>(work.src + static_cast<u64>(offset));
        return held;
      },
      [&](const HeldPart<T, u32>& held) { shared[held.to] = held.part; });
}

// Out of it, along the destination.
template <class T>
DAMACY_ELEMENT void put_transposed(const TileWork& work, const T* shared, u32 thread) {
  const TileRecord& record = work.record;
  const Negation negation = negation_of(record);
  const u32 count = work.count();
  DAMACY_NO_UNROLL
  for (u32 unit = thread; unit < count; unit += kPlanThreads) {
    const u32 row = divide(unit, record.by[2]);
    const u32 i = unit - row * record.extent[3];
    const u32 plane = divide(row, record.by[1]);
    const u32 c = row - plane * record.extent[2];
    const i64 offset = product_and(static_cast<i32>(i), record.dst_stride[3], row_offsets(record, row).dst);
    put_part(work.dst + static_cast<u64>(offset), shared[(plane * record.extent[3] + i) * (record.extent[2] + 1) + c],
             negation);
  }
}

}  // namespace damacy::copy_cuda
