// Rows whose elements lie side by side in a chunk that is not shuffled, or are one value each (a fill). The source may
// be at any alignment: a thread reads the words that its elements touch and shifts them. A block owns a tile of
// vectors, a thread every 256th of them, several in flight at a time.
#pragma once

#include "damacy/copy/cuda/vectors.h"

namespace damacy::copy_cuda {

template <class From, class To>
struct RowKernel {
  static constexpr int kCount = kVectorOf<To>;
  static constexpr i32 kSize = sizeof(From);
  static constexpr int kBytes = kCount * kSize;
  static constexpr u32 kAtOnce = kBytes <= 16 ? 4 : 2;
  using Raw = UnsignedOf<sizeof(From)>;
  using Elements = Vector<From, To, kCount>;

  DAMACY_ELEMENT static void run(const Group& group, u32 tile_index, u32 thread) {
    const Tile tile = find_tile(group, tile_index);
    const Record& record = *tile.record;
    const Rows rows(record);
    const u32 begin = tile.index * kTileVectors + thread;
    const u32 swap = record.swap;
    if (record.src_step == 0) return fill(rows, swap, begin);
    const Bounds bounds{record.reach_begin, record.reach_end};
    DAMACY_NO_UNROLL
    for (u32 i = 0; i < kVectorsPerThread; i += kAtOnce) {
      if (begin + i * kThreads >= rows.units) return;
      copy(rows, bounds, swap, begin + i * kThreads);
    }
  }

 private:
  DAMACY_ELEMENT static void copy(const Rows& rows, const Bounds& bounds, u32 swap, u32 unit) {
    Spot spots[kAtOnce];
    Span<kBytes> spans[kAtOnce];
    DAMACY_UNROLL
    for (u32 i = 0; i < kAtOnce; ++i) {
      spots[i] = find_spot<To, kCount>(rows, unit + i * kThreads);
      const u64 address = rows.src + static_cast<u64>(product_and(spots[i].first, kSize, spots[i].row));
      if (Span<kBytes>::is_inside(bounds, address)) {
        spans[i].fetch(address);
      } else {
        place_apart(rows, spots[i], address, swap);
        spots[i].first = static_cast<i32>(rows.row_elements);
      }
    }
    DAMACY_UNROLL
    for (u32 i = 0; i < kAtOnce; ++i) {
      const Part part = part_of<kCount>(rows, spots[i].first);
      if (part.low >= part.high) continue;
      Elements vector = elements(spans[i]);
      vector.swap(swap);
      vector.write(spots[i].dst, part);
    }
  }

  DAMACY_ELEMENT static Elements elements(const Span<kBytes>& span) {
    Elements vector;
    DAMACY_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if constexpr (sizeof(From) == 8) {
        vector.values[i] = bits_as<From>(static_cast<u64>(span.word(2 * i + 1)) << 32 | span.word(2 * i));
      } else {
        constexpr int kPerWord = 4 / sizeof(From);
        const u32 word = span.word(i / kPerWord);
        vector.values[i] = bits_as<From>(static_cast<Raw>(word >> (8 * sizeof(From) * (i % kPerWord))));
      }
    }
    return vector;
  }

  DAMACY_ELEMENT static Raw load_bytes(u64 address) {
    if ((address & (sizeof(From) - 1)) == 0) return load<Raw>(address);
    Raw raw = 0;
    for (u32 k = 0; k < sizeof(From); ++k)
      raw = static_cast<Raw>(raw | static_cast<Raw>(load<u8>(address + k)) << (8 * k));
    return raw;
  }

  // Element by element: a vector so near an end of the box that its words would hold bytes of others.
  DAMACY_ELEMENT static void place_apart(const Rows& rows, const Spot& spot, u64 address, u32 swap) {
    const Part part = part_of<kCount>(rows, spot.first);
    DAMACY_NO_UNROLL
    for (i32 i = part.low; i < part.high; ++i) {
      From value = bits_as<From>(load_bytes(address + static_cast<u64>(i64{i} * kSize)));
      if (swap != 0) value = swapped(value, swap);
      store_element<To>(spot.dst, i, value);
    }
  }

  DAMACY_ELEMENT static void fill(const Rows& rows, u32 swap, u32 unit) {
    DAMACY_NO_UNROLL
    for (u32 i = 0; i < kVectorsPerThread && unit < rows.units; ++i, unit += kThreads) {
      const Spot spot = find_spot<To, kCount>(rows, unit);
      Elements vector;
      vector.values[0] = bits_as<From>(load_bytes(rows.src + static_cast<u64>(spot.row)));
      if (swap != 0) vector.values[0] = swapped(vector.values[0], swap);
      DAMACY_UNROLL
      for (int k = 1; k < kCount; ++k) vector.values[k] = vector.values[0];
      vector.write(spot.dst, part_of<kCount>(rows, spot.first));
    }
  }
};

}  // namespace damacy::copy_cuda
