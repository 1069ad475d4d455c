// Placing by vectors: what is the same for rows that lie plainly in the source and for shuffled ones. A row of the
// destination is covered by aligned vectors, of which the first and the last may be there in part; a thread finds the
// elements of one vector, converts them and stores them at once. Knows one record at a time.
#pragma once

#include "damacy/copy/cuda/layout.h"

namespace damacy::copy_cuda {

// What a thread needs of a record for every vector, in registers.
struct Rows {
  u64 src;  // address of the box's first element, as if the chunk were not shuffled
  u64 dst;
  u32 row_elements;
  u32 units;
  u32 slots;
  Divisor by_slots;
  u32 outer_axes;
  u32 extent;  // of the outer axis that varies fastest; the one around it takes what is left
  Divisor by_extent;
  i32 src_strides[2];
  i32 dst_strides[2];
  const RecordAxis* axes;

  DAMACY_ELEMENT explicit Rows(const Record& record)
      : src(record.chunk + static_cast<u64>(record.src_offset)),
        dst(record.dst),
        row_elements(static_cast<u32>(record.row_elements)),
        units(static_cast<u32>(record.units)),
        slots(record.slots),
        by_slots(record.by_slots),
        outer_axes(record.outer_axes),
        extent(static_cast<u32>(record.axes[0].extent)),
        by_extent(record.axes[0].by_extent),
        src_strides{static_cast<i32>(record.axes[0].src_stride), static_cast<i32>(record.axes[1].src_stride)},
        dst_strides{static_cast<i32>(record.axes[0].dst_stride), static_cast<i32>(record.axes[1].dst_stride)},
        axes(record.axes) {}
};

DAMACY_ELEMENT i64 along(u32 at, i32 stride) {
  return static_cast<i64>(static_cast<i32>(at)) * stride;
}

// Offsets of a row from the first.
struct RowOffsets {
  i64 src;
  i64 dst;
};

DAMACY_ELEMENT RowOffsets offsets_of_row(const Rows& rows, u32 row) {
  u32 around = divide(row, rows.by_extent);
  const u32 at = row - around * rows.extent;
  RowOffsets offsets{along(at, rows.src_strides[0]), along(at, rows.dst_strides[0])};
  if (rows.outer_axes > 2) {
    DAMACY_NO_UNROLL
    for (u32 i = 1; i < rows.outer_axes; ++i) {
      const RecordAxis& axis = rows.axes[i];
      const u32 next = divide(around, axis.by_extent);
      const u32 index = around - next * static_cast<u32>(axis.extent);
      offsets.src += along(index, static_cast<i32>(axis.src_stride));
      offsets.dst += along(index, static_cast<i32>(axis.dst_stride));
      around = next;
    }
    return offsets;
  }
  return {offsets.src + along(around, rows.src_strides[1]), offsets.dst + along(around, rows.dst_strides[1])};
}

// One vector of the destination: elements low to high of it are to be stored, perhaps none.
struct Spot {
  u64 dst;    // address of the whole vector
  i64 row;    // bytes from the box's first element to its row's first, in the source
  i32 first;  // the vector's first element, counted in its row; may be negative
  i32 low;
  i32 high;
};

template <class To>
DAMACY_ELEMENT Spot find_spot(const Rows& rows, u32 unit) {
  constexpr i32 kCount = kVectorOf<To>;
  constexpr u32 kBytes = kCount * sizeof(To);
  const u32 row = divide(unit, rows.by_slots);
  const u32 slot = unit - row * rows.slots;
  const RowOffsets offsets = offsets_of_row(rows, row);
  const u64 dst = rows.dst + static_cast<u64>(offsets.dst);
  const u32 into = static_cast<u32>(dst) & (kBytes - 1);
  const i32 first = static_cast<i32>(slot) * kCount - static_cast<i32>(into / sizeof(To));
  const i32 left = static_cast<i32>(rows.row_elements) - first;
  const bool exists = unit < rows.units;
  return {dst - into + static_cast<u64>(slot) * kBytes, offsets.src, first, exists ? (first < 0 ? -first : 0) : kCount,
          exists ? (left < kCount ? left : kCount) : 0};
}

// The last few bytes of a whole chunk's words are others' memory.
struct Bounds {
  u64 begin;
  u64 end;
  bool whole_words;

  DAMACY_ELEMENT explicit Bounds(const Record& record)
      : begin(record.chunk), end(record.chunk + record.chunk_bytes), whole_words(record.whole_words != 0) {}
};

DAMACY_ELEMENT u32 load_word_within(const Bounds& bounds, u64 address) {
  if (address >= bounds.begin && address + 4 <= bounds.end) return load<u32>(address);
  u32 word = 0;
  DAMACY_NO_UNROLL
  for (u32 k = 0; k < 4; ++k)
    if (address + k >= bounds.begin && address + k < bounds.end)
      word |= static_cast<u32>(load<u8>(address + k)) << (8 * k);
  return word;
}

// kCount bytes from any address, a multiple of four: words that hold a byte of those from low to high are read, the
// others left zero. What is outside of low and high is arbitrary.
template <int kCount>
struct Span {
  static constexpr int kWords = kCount / 4;
  u32 words[kWords + 1];
  u32 skip;

  DAMACY_ELEMENT void fetch(const Bounds& bounds, u64 address, i32 low, i32 high) {
    skip = static_cast<u32>(address) & 3u;
    const u64 first = address - skip;
    const i32 begin = low + static_cast<i32>(skip) - 4;
    const i32 end = high + static_cast<i32>(skip);
    if (bounds.whole_words) {
      DAMACY_UNROLL
      for (int i = 0; i <= kWords; ++i) words[i] = 4 * i > begin && 4 * i < end ? load<u32>(first + 4u * i) : 0;
    } else {
      DAMACY_UNROLL
      for (int i = 0; i <= kWords; ++i)
        words[i] = 4 * i > begin && 4 * i < end ? load_word_within(bounds, first + 4u * i) : 0;
    }
  }

  DAMACY_ELEMENT u32 word(int i) const { return word_across(words[i], words[i + 1], skip); }
};

template <class T>
DAMACY_ELEMENT T swapped(T value, u32 part) {
  using Raw = UnsignedOf<sizeof(T)>;
  const Raw raw = bits_as<Raw>(value);
  if constexpr (sizeof(T) == 8)
    if (part == 4)
      return bits_as<T>(static_cast<u64>(byte_swapped(static_cast<u32>(raw >> 32))) << 32 |
                        byte_swapped(static_cast<u32>(raw)));
  return bits_as<T>(byte_swapped(raw));
}

// The elements of a vector, and how they are stored.
template <class From, class To>
struct Vector {
  static constexpr int kCount = kVectorOf<To>;
  static constexpr int kWords = kCount * static_cast<int>(sizeof(To)) / 4;
  From values[kCount];

  DAMACY_ELEMENT void swap(u32 part) {
    if (part == 0) return;
    DAMACY_UNROLL
    for (int i = 0; i < kCount; ++i) values[i] = swapped(values[i], part);
  }

  DAMACY_ELEMENT void write(const Spot& spot) const {
    u32 words[kWords];
    pack(words);
    if (spot.low == 0 && spot.high == kCount) {
      DAMACY_UNROLL
      for (int i = 0; i < kWords; i += 4) store_vector(spot.dst + 4u * i, words + i);
      return;
    }
    DAMACY_UNROLL
    for (int i = 0; i < kCount; ++i)
      if (i >= spot.low && i < spot.high) store(spot.dst + sizeof(To) * i, element(words, i));
  }

 private:
  // Half floats of small integers are what the device rounds by itself, two at a time.
  static constexpr bool kInPairs =
      sizeof(From) <= 2 && std::is_integral_v<From> && (std::is_same_v<To, F16> || std::is_same_v<To, Bf16>);

  DAMACY_ELEMENT void pack(u32* words) const {
    if constexpr (kInPairs) {
      DAMACY_UNROLL
      for (int i = 0; i < kWords; ++i)
        words[i] = rounded_pair<To>(static_cast<float>(values[2 * i]), static_cast<float>(values[2 * i + 1]));
    } else {
      DAMACY_UNROLL
      for (int i = 0; i < kWords; ++i) words[i] = 0;
      DAMACY_UNROLL
      for (int i = 0; i < kCount; ++i) put(words, i, bits_as<UnsignedOf<sizeof(To)>>(convert<To>(values[i])));
    }
  }

  template <class Raw>
  DAMACY_ELEMENT static void put(u32* words, int i, Raw raw) {
    if constexpr (sizeof(Raw) == 8) {
      words[2 * i] = static_cast<u32>(raw);
      words[2 * i + 1] = static_cast<u32>(raw >> 32);
    } else {
      constexpr int kPerWord = 4 / sizeof(Raw);
      words[i / kPerWord] |= static_cast<u32>(raw) << (8 * sizeof(Raw) * (i % kPerWord));
    }
  }

  DAMACY_ELEMENT static UnsignedOf<sizeof(To)> element(const u32* words, int i) {
    if constexpr (sizeof(To) == 8)
      return static_cast<u64>(words[2 * i + 1]) << 32 | words[2 * i];
    else
      return static_cast<UnsignedOf<sizeof(To)>>(words[i * static_cast<int>(sizeof(To)) / 4] >>
                                                 (8 * sizeof(To) * (i % (4 / sizeof(To)))));
  }
};

}  // namespace damacy::copy_cuda
