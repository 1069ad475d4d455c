// What a block does with one tile of a copy plan. One source for host and device. The way is the same for all threads
// of a block: parts (2 to 16 bytes a thread, several on their way at once), windows (rows of small elements at any
// alignment, stored by 16 bytes), transposed (by way of shared memory, so that both sides go along memory), or element
// by element. Knows addresses; not launches.
#pragma once

#include "damacy/copy/copy_plan.h"
#include "damacy/copy/cuda/elements.h"
#include "damacy/copy/element_ops.h"
#include "damacy/copy/gpu_plan/tile_record.h"

namespace damacy::copy_cuda {

using copy::Piece;

inline constexpr u32 kPlanThreads = 256;
inline constexpr u32 kTransposeBytes = 32768 / 8 * 9;  // a tile, padded by an element a row

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

// 16 bytes that move together.
struct Words {
  u32 at[4];
};

// Aligned; memory that nobody writes meanwhile.
DAMACY_ELEMENT Words load_vector(u64 address) {
#ifdef __CUDA_ARCH__
  const uint4 v = __ldg(reinterpret_cast<const uint4*>(address));
  return {{v.x, v.y, v.z, v.w}};
#else
  if (address % 16 != 0) __builtin_trap();
  Words words;
  std::memcpy(&words, reinterpret_cast<const void*>(address), sizeof words);
  return words;
#endif
}

template <class Part>
DAMACY_ELEMENT Part take_part(u64 address) {
  if constexpr (sizeof(Part) == 16)
    return load_vector(address);
  else
    return load<Part>(address);
}

template <class Part>
DAMACY_ELEMENT void put_part(u64 address, const Part& part, const Negation& negation) {
  if constexpr (sizeof(Part) == 16) {
    const u32 low = static_cast<u32>(negation.flip), high = static_cast<u32>(negation.flip >> 32);
    const u32 words[4] = {part.at[0] ^ low, part.at[1] ^ high, part.at[2] ^ low, part.at[3] ^ high};
    store_vector(address, words);
  } else {
    store(address, static_cast<Part>((part ^ static_cast<Part>(negation.flip)) + static_cast<Part>(negation.add)));
  }
}

// The last axis in parts: how many, and how far apart.
struct Steps {
  u32 count;
  Divisor by;
  i32 src;
  i32 dst;
};

template <class Part>
DAMACY_ELEMENT Steps steps_of(const TileWork& work) {
  constexpr auto kBytes = static_cast<i32>(sizeof(Part));
  const TileRecord& record = work.record;
  if (kBytes == record.to_bytes) return {record.extent[3], record.by[2], record.src_stride[3], record.dst_stride[3]};
  return {work.row_bytes() / static_cast<u32>(kBytes), kBytes == 16 ? record.by_16 : record.by_8, kBytes, kBytes};
}

// Several parts are on their way at once.
template <class Part>
DAMACY_ELEMENT void move_parts(const TileWork& work, u32 thread) {
  constexpr u32 kAtOnce = 4;
  const Steps steps = steps_of<Part>(work);
  const Negation negation = negation_of(work.record);
  const u32 units = work.record.rows * steps.count;
  DAMACY_NO_UNROLL
  for (u32 first = thread; first < units; first += kAtOnce * kPlanThreads) {
    Part parts[kAtOnce];
    u64 to[kAtOnce];
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) {
      const u32 unit = first + k * kPlanThreads;
      const u32 row = divide(unit, steps.by);
      const auto step = static_cast<i32>(unit - row * steps.count);
      const Offsets at = row_offsets(work.record, row);
      to[k] = work.dst + static_cast<u64>(product_and(step, steps.dst, at.dst));
      if (unit < units) parts[k] = take_part<Part>(work.src + static_cast<u64>(product_and(step, steps.src, at.src)));
    }
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k)
      if (first + k * kPlanThreads < units) put_part(to[k], parts[k], negation);
  }
}

// 16 bytes of a row that go to an aligned address, as the words that hold them.
struct Window {
  u64 to = 0;  // 0: none
  u32 bits;    // where in the first word they begin
  u32 words[5];
};

DAMACY_ELEMENT void take_window(Window& window, u64 src) {
  const u64 start = src & ~u64{3};
  window.bits = static_cast<u32>(src & 3) * 8;
  DAMACY_UNROLL
  for (u32 i = 0; i < 4; ++i) window.words[i] = load<u32>(start + 4 * i);
  window.words[4] = window.bits == 0 ? 0 : load<u32>(start + 16);
}

DAMACY_ELEMENT void put_window(const Window& window) {
  u32 words[4];
  DAMACY_UNROLL
  for (u32 i = 0; i < 4; ++i) words[i] = word_across(window.words[i], window.words[i + 1], window.bits);
  store_vector(window.to, words);
}

// What of each row fills windows.
DAMACY_ELEMENT void move_windows(const TileWork& work, u32 thread) {
  constexpr u32 kAtOnce = 4;
  const u32 most = work.row_bytes() / 16, units = work.record.rows * most;
  DAMACY_NO_UNROLL
  for (u32 first = thread; first < units; first += kAtOnce * kPlanThreads) {
    Window windows[kAtOnce];
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) {
      const u32 unit = first + k * kPlanThreads;
      const u32 row = divide(unit, work.record.by_16);
      const Offsets at = row_offsets(work.record, row);
      const u64 dst = work.dst + static_cast<u64>(at.dst);
      const u64 to = ((dst + 15) & ~u64{15}) + 16 * u64{unit - row * most};
      if (unit >= units || to + 16 > dst + work.row_bytes()) continue;
      windows[k].to = to;
      take_window(windows[k], work.src + static_cast<u64>(at.src) + (to - dst));
    }
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k)
      if (windows[k].to != 0) put_window(windows[k]);
  }
}

// And what of them does not: fewer than 16 bytes at each end. Threads next to each other take elements next to each
// other; a thread an end was slower by half.
template <class Part>
DAMACY_ELEMENT void move_row_ends(const TileWork& work, u32 thread) {
  constexpr u32 kAtOnce = 4, kMost = 16 / sizeof(Part);  // places at an end
  const u32 units = work.record.rows * 2 * kMost;
  DAMACY_NO_UNROLL
  for (u32 first = thread; first < units; first += kAtOnce * kPlanThreads) {
    Part parts[kAtOnce];
    u64 to[kAtOnce];
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) {
      const u32 unit = first + k * kPlanThreads, end_of_row = unit / kMost;
      const Offsets at = row_offsets(work.record, end_of_row / 2);
      const u64 dst = work.dst + static_cast<u64>(at.dst), end = dst + work.row_bytes();
      const bool head = end_of_row % 2 == 0;
      const u64 address = ((head ? dst : end) & ~u64{15}) + unit % kMost * sizeof(Part);
      const bool there = head ? address >= dst && address < ((dst + 15) & ~u64{15}) : address < end;
      to[k] = unit < units && there ? address : 0;
      if (to[k] != 0) parts[k] = load<Part>(work.src + static_cast<u64>(at.src) + (address - dst));
    }
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k)
      if (to[k] != 0) store(to[k], parts[k]);
  }
}

// The ways that only move bits, or turn signs.
DAMACY_ELEMENT void move_tile(const TileWork& work, Way way, u32 thread) {
  switch (way) {
    case Way::parts_1:
      return move_parts<u8>(work, thread);
    case Way::parts_2:
      return move_parts<u16>(work, thread);
    case Way::parts_4:
      return move_parts<u32>(work, thread);
    case Way::parts_8:
      return move_parts<u64>(work, thread);
    case Way::parts_16:
      return move_parts<Words>(work, thread);
    default:
      move_windows(work, thread);
      if (work.record.to_bytes == 4) return move_row_ends<u32>(work, thread);
      return work.record.to_bytes == 2 ? move_row_ends<u16>(work, thread) : move_row_ends<u8>(work, thread);
  }
}

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
// fall on different banks. Several elements are on their way at once.
template <class T>
DAMACY_ELEMENT void take_transposed(const TileWork& work, T* shared, u32 thread) {
  constexpr u32 kAtOnce = 8;
  const TileRecord& record = work.record;
  const u32 count = work.count();
  DAMACY_NO_UNROLL
  for (u32 first = thread; first < count; first += kAtOnce * kPlanThreads) {
    T values[kAtOnce];
    u32 to[kAtOnce];
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) {
      const u32 unit = first + k * kPlanThreads;
      const u32 line = divide(unit, record.by[1]);
      const u32 plane = divide(line, record.by[2]);
      const u32 outer = divide(plane, record.by[0]);
      const auto c = static_cast<i32>(unit - line * record.extent[2]);
      const auto i = static_cast<i32>(line - plane * record.extent[3]);
      const auto b = static_cast<i32>(plane - outer * record.extent[1]);
      const i64 outside =
          product_and(static_cast<i32>(outer), record.src_stride[0], product_and(b, record.src_stride[1], 0));
      const i64 offset = product_and(c, record.src_stride[2], product_and(i, record.src_stride[3], outside));
      to[k] = line * (record.extent[2] + 1) + static_cast<u32>(c);
      if (unit < count) values[k] = load<T>(work.src + static_cast<u64>(offset));
    }
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k)
      if (first + k * kPlanThreads < count) shared[to[k]] = values[k];
  }
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
