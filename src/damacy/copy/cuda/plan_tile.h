// What a block does with one tile of a copy plan. One source for host and device. The way is the same for all threads
// of a block: rows (16-byte stores, loads as wide as the source's alignment allows), transposed (by way of shared
// memory, so that both sides go along memory), or element by element. Knows addresses; not launches.
#pragma once

#include "damacy/copy/copy_plan.h"
#include "damacy/copy/cuda/elements.h"
#include "damacy/copy/element_ops.h"

namespace damacy::copy_cuda {

using copy::Piece;

inline constexpr u32 kPlanThreads = 256;
inline constexpr u32 kTransposeLeast = 8;              // extent of both axes from which on transposing pays
inline constexpr u32 kTransposeBytes = 32768 / 8 * 9;  // a tile, padded by an element a row

enum class Way : u32 { rows, transposed, elements, bytes };

// A tile, ready for all threads. In shared memory on a device.
struct TileWork {
  u64 src;  // addresses of the first elements
  u64 dst;
  i64 src_stride[Piece::kAxes];
  i64 dst_stride[Piece::kAxes];
  u32 extent[Piece::kAxes];
  Divisor by[Piece::kAxes];  // by extent
  Divisor by_vectors;        // of a row
  u32 vectors;               // windows of 16 bytes that cover any row
  u32 row_bytes;
  u32 rows;
  u32 count;  // elements
  u32 bytes;  // of an element that moves
  Dtype from;
  Dtype to;
  bool negate;
  bool add;
  Way way;
};

DAMACY_ELEMENT Divisor divisor_of(u32 number) {
  u32 shift = 0;
  while ((u64{1} << shift) < number) ++shift;
  return {static_cast<u32>(((u64{1} << (31 + shift)) + number - 1) / number), shift};
}

DAMACY_ELEMENT bool moves_bits(const TileWork& work) {
  return work.from == work.to && !work.negate && !work.add;
}

DAMACY_ELEMENT Way way_of(const TileWork& work) {
  const u32 to = static_cast<u32>(size_of(work.to)), from = static_cast<u32>(size_of(work.from));
  u64 src_bits = work.src, dst_bits = work.dst;
  for (u32 axis = 0; axis < Piece::kAxes; ++axis) {
    if (work.extent[axis] == 1) continue;
    src_bits |= static_cast<u64>(work.src_stride[axis]);
    dst_bits |= static_cast<u64>(work.dst_stride[axis]);
  }
  const u32 src_part = from == 16 ? 8 : from, dst_part = to == 16 ? 8 : to;
  if ((src_bits & (src_part - 1)) != 0 || (dst_bits & (dst_part - 1)) != 0) return Way::bytes;
  if (work.from != work.to) return Way::elements;
  const bool dst_runs = work.extent[3] == 1 || work.dst_stride[3] == to;
  if (moves_bits(work) && dst_runs && (work.extent[3] == 1 || work.src_stride[3] == from) && work.row_bytes >= 64)
    return Way::rows;
  const bool src_runs = work.src_stride[2] == from || work.src_stride[2] == -static_cast<i64>(from);
  if (dst_runs && src_runs && to <= 8 && work.extent[2] >= kTransposeLeast && work.extent[3] >= kTransposeLeast)
    return Way::transposed;
  return Way::elements;
}

// By one thread, from the piece and the number of the tile in it.
DAMACY_ELEMENT void prepare(TileWork& work, const Piece& piece, u32 tile, u64 src_base, u64 dst_base) {
  work.src = src_base + static_cast<u64>(piece.src_offset);
  work.dst = dst_base + static_cast<u64>(piece.dst_offset);
  work.count = 1;
  for (u32 i = Piece::kAxes; i-- > 0;) {
    const CopyAxis& axis = piece.axes[i];
    const u32 next = tile / piece.tile_counts[i];
    const i64 start = static_cast<i64>(tile - next * piece.tile_counts[i]) * piece.tile[i];
    tile = next;
    const i64 left = axis.extent - start;
    work.extent[i] = static_cast<u32>(left < piece.tile[i] ? left : piece.tile[i]);
    work.src_stride[i] = axis.src_stride;
    work.dst_stride[i] = axis.dst_stride;
    work.src += static_cast<u64>(start * axis.src_stride);
    work.dst += static_cast<u64>(start * axis.dst_stride);
    work.count *= work.extent[i];
  }
  work.from = piece.from;
  work.to = piece.to;
  work.negate = piece.negate;
  work.add = piece.add;
  work.bytes = static_cast<u32>(size_of(piece.to));
  work.rows = work.count / work.extent[3];
  work.row_bytes = work.extent[3] * work.bytes;
  work.way = way_of(work);
}

// Then by four threads, as divisions take long; `which`: 0 to 3.
DAMACY_ELEMENT void prepare_divisor(TileWork& work, u32 which) {
  if (which > 0) {
    work.by[which] = divisor_of(work.extent[which]);
    return;
  }
  if (work.way != Way::rows) return;
  u64 steps = work.dst;
  for (u32 i = 0; i + 1 < Piece::kAxes; ++i)
    if (work.extent[i] > 1) steps |= static_cast<u64>(work.dst_stride[i]);
  work.vectors = (work.row_bytes + 15) / 16 + (steps % 16 == 0 ? 0 : 1);
  work.by_vectors = divisor_of(work.vectors);
}

struct Offsets {
  i64 src;
  i64 dst;
};

// Of a row: all axes but the last.
DAMACY_ELEMENT Offsets row_offsets(const TileWork& work, u32 row) {
  const u32 second = divide(row, work.by[2]);
  const u32 third = divide(second, work.by[1]);
  const i64 c = row - second * work.extent[2], b = second - third * work.extent[1], a = third;
  return {a * work.src_stride[0] + b * work.src_stride[1] + c * work.src_stride[2],
          a * work.dst_stride[0] + b * work.dst_stride[1] + c * work.dst_stride[2]};
}

// Four words from any address; the words that hold the 16 bytes, and no other, are read.
DAMACY_ELEMENT void load_words(u64 address, u32* words) {
  if (address % 8 == 0) {
    for (u32 i = 0; i < 2; ++i) {
      const u64 part = load<u64>(address + 8 * i);
      words[2 * i] = static_cast<u32>(part);
      words[2 * i + 1] = static_cast<u32>(part >> 32);
    }
    return;
  }
  const u64 start = address & ~u64{3};
  const u32 bits = static_cast<u32>(address & 3) * 8;
  u32 low = load<u32>(start);
  for (u32 i = 0; i < 4; ++i) {
    const u32 high = bits == 0 && i == 3 ? 0 : load<u32>(start + 4 * (i + 1));
    words[i] = word_across(low, high, bits);
    low = high;
  }
}

#ifdef __CUDA_ARCH__
DAMACY_ELEMENT void load_vector(u64 address, u32* words) {
  const uint4 v = __ldg(reinterpret_cast<const uint4*>(address));
  words[0] = v.x;
  words[1] = v.y;
  words[2] = v.z;
  words[3] = v.w;
}
#else
DAMACY_ELEMENT void load_vector(u64 address, u32* words) {
  load_words(address, words);
}
#endif

// Elements as bits. Those of 16 bytes are aligned to 8.
DAMACY_ELEMENT Bits load_bits(u64 address, u32 bytes) {
  if (bytes == 16) return {load<u64>(address), load<u64>(address + 8)};
  return {load_aligned(address, bytes), 0};
}

DAMACY_ELEMENT void store_bits(u64 address, const Bits& bits, u32 bytes) {
  store_part(address, bits.low, bytes == 16 ? 8 : bytes);
  if (bytes == 16) store_part(address + 8, bits.high, 8);
}

// Window `v` of a row: 16 aligned bytes of the destination, which are loaded, or what the row has of them, which is
// moved at once. Returns where the loaded ones go; 0: there are none.
DAMACY_ELEMENT u64 take_window(const TileWork& work, u64 src, u64 dst, u32 v, u32* words) {
  const u64 window = (dst & ~u64{15}) + 16 * u64{v};
  const u64 end = dst + work.row_bytes;
  const u64 low = window < dst ? dst : window;
  const u64 high = window + 16 < end ? window + 16 : end;
  if (low >= high) return 0;
  src += low - dst;
  if (high - low < 16) {
    for (u64 at = 0; at < high - low; at += work.bytes)
      store_bits(low + at, load_bits(src + at, work.bytes), work.bytes);
    return 0;
  }
  if (src % 16 == 0)
    load_vector(src, words);
  else
    load_words(src, words);
  return window;
}

// Several windows are on their way at once.
DAMACY_ELEMENT void move_rows(const TileWork& work, u32 thread) {
  constexpr u32 kAtOnce = 4;
  const u32 units = work.rows * work.vectors;
  DAMACY_NO_UNROLL
  for (u32 first = thread; first < units; first += kAtOnce * kPlanThreads) {
    u32 words[kAtOnce][4];
    u64 to[kAtOnce];
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) {
      const u32 unit = first + k * kPlanThreads;
      to[k] = 0;
      if (unit >= units) continue;
      const u32 row = divide(unit, work.by_vectors);
      const Offsets at = row_offsets(work, row);
      to[k] = take_window(work, work.src + static_cast<u64>(at.src), work.dst + static_cast<u64>(at.dst),
                          unit - row * work.vectors, words[k]);
    }
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k)
      if (to[k] != 0) store_vector(to[k], words[k]);
  }
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
  const TileWork& work;
  Bits& bits;
  u64 dst;
  template <class T>
  DAMACY_ELEMENT void operator()(T) const {
    T value = value_of<T>(bits);
    if (work.negate) value = copy::negated(value);
    if (work.add) value = copy::sum(value_of<T>(gather_bits(dst, static_cast<u32>(sizeof(T)))), value);
    bits = bits_of(value);
  }
};

// What goes to `dst` for an element that was read.
template <bool kCasts>
DAMACY_ELEMENT Bits result_of(const TileWork& work, Bits bits, u64 dst) {
  if constexpr (kCasts)
    if (work.from != work.to) bits.low = converted(bits.low, work.from, work.to);
  if (work.negate || work.add) copy::with_type(work.to, Finish{work, bits, dst});
  return bits;
}

template <bool kCasts>
DAMACY_ELEMENT void do_elements(const TileWork& work, u32 thread) {
  const bool aligned = work.way == Way::elements;
  const u32 from = static_cast<u32>(size_of(work.from));
  DAMACY_NO_UNROLL
  for (u32 unit = thread; unit < work.count; unit += kPlanThreads) {
    const u32 row = divide(unit, work.by[3]);
    const Offsets at = row_offsets(work, row);
    const i64 i = unit - row * work.extent[3];
    const u64 src = work.src + static_cast<u64>(at.src + i * work.src_stride[3]);
    const u64 dst = work.dst + static_cast<u64>(at.dst + i * work.dst_stride[3]);
    const Bits bits = aligned ? load_bits(src, from) : gather_bits(src, from);
    store_bits(dst, result_of<kCasts>(work, bits, dst), work.bytes);
  }
}

// Into `shared`, along the source: its rows one after the other, each with an element more, so that columns of words
// fall on different banks.
template <class T>
DAMACY_ELEMENT void take_transposed(const TileWork& work, T* shared, u32 thread) {
  DAMACY_NO_UNROLL
  for (u32 unit = thread; unit < work.count; unit += kPlanThreads) {
    const u32 line = divide(unit, work.by[2]);
    const u32 plane = divide(line, work.by[3]);
    const u32 outer = divide(plane, work.by[1]);
    const u32 c = unit - line * work.extent[2];
    const i64 i = line - plane * work.extent[3], b = plane - outer * work.extent[1], a = outer;
    const i64 offset =
        a * work.src_stride[0] + b * work.src_stride[1] + i64{c} * work.src_stride[2] + i * work.src_stride[3];
    shared[line * (work.extent[2] + 1) + c] = load<T>(work.src + static_cast<u64>(offset));
  }
}

// Out of it, along the destination.
template <class T>
DAMACY_ELEMENT void put_transposed(const TileWork& work, const T* shared, u32 thread) {
  DAMACY_NO_UNROLL
  for (u32 unit = thread; unit < work.count; unit += kPlanThreads) {
    const u32 row = divide(unit, work.by[3]);
    const u32 i = unit - row * work.extent[3];
    const u32 plane = divide(row, work.by[2]);
    const u32 c = row - plane * work.extent[2];
    const u64 dst = work.dst + static_cast<u64>(row_offsets(work, row).dst + i64{i} * work.dst_stride[3]);
    const Bits bits{shared[(plane * work.extent[3] + i) * (work.extent[2] + 1) + c], 0};
    store_bits(dst, result_of<false>(work, bits, dst), work.bytes);
  }
}

}  // namespace damacy::copy_cuda
