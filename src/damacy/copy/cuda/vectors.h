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

// Where a row begins: the source's bytes are counted from the box's first element, the destination is an address.
struct RowPlace {
  i64 src;
  i64 dst;

  DAMACY_ELEMENT void go(u32 steps, i64 src_stride, i64 dst_stride) {
    src = product_and(static_cast<i32>(steps), static_cast<i32>(src_stride), src);
    dst = product_and(static_cast<i32>(steps), static_cast<i32>(dst_stride), dst);
  }
};

DAMACY_ELEMENT RowPlace find_row(const Rows& rows, u32 row) {
  u32 around = divide(row, rows.by_extent);
  RowPlace place{0, static_cast<i64>(rows.dst)};
  place.go(row - around * rows.extent, rows.src_strides[0], rows.dst_strides[0]);
  if (rows.outer_axes <= 2) {
    place.go(around, rows.src_strides[1], rows.dst_strides[1]);
    return place;
  }
  DAMACY_NO_UNROLL
  for (u32 i = 1; i < rows.outer_axes; ++i) {
    const RecordAxis& axis = rows.axes[i];
    const u32 next = divide(around, axis.by_extent);
    place.go(around - next * static_cast<u32>(axis.extent), axis.src_stride, axis.dst_stride);
    around = next;
  }
  return place;
}

// One vector of the destination. Some of its elements may lie before its row or behind it, or all of them.
struct Spot {
  u64 dst;    // address of the whole vector
  i64 row;    // bytes from the box's first element to its row's first, in the source
  i32 first;  // the vector's first element, counted in its row
};

template <class To, int kCount>
DAMACY_ELEMENT Spot find_spot(const Rows& rows, u32 unit) {
  constexpr i32 kSize = sizeof(To);
  const u32 row = divide(unit, rows.by_slots);
  const i32 slot = static_cast<i32>(unit - row * rows.slots);
  const RowPlace place = find_row(rows, row);
  const i32 first = slot * kCount - static_cast<i32>(static_cast<u32>(place.dst) % (kCount * kSize) / kSize);
  return {static_cast<u64>(product_and(first, kSize, place.dst)), place.src,
          unit < rows.units ? first : static_cast<i32>(rows.row_elements)};
}

// The elements of a vector that are in its row.
struct Part {
  i32 low;
  i32 high;
};

template <int kCount>
DAMACY_ELEMENT Part part_of(const Rows& rows, i32 first) {
  const i32 left = static_cast<i32>(rows.row_elements) - first;
  return {first < 0 ? -first : 0, left < kCount ? left : kCount};
}

// Memory that may be read, needed or not.
struct Bounds {
  u64 begin;
  u64 end;
};

// kCount bytes from any address, a multiple of four, by way of aligned pieces: of four bytes, or of eight where there
// are many.
template <int kCount>
struct Span {
  static constexpr int kWords = kCount / 4;
  static constexpr int kPiece = kCount >= 16 ? 8 : 4;
  static constexpr int kFetched = kWords + kPiece / 4;  // words, from an aligned address on
  u32 words[kFetched];
  u32 skip;

  // Whether all pieces that hold one of those bytes lie in bounds.
  DAMACY_ELEMENT static bool is_inside(const Bounds& bounds, u64 address) {
    const u64 first = address & ~u64{kPiece - 1};
    return first >= bounds.begin && first + 4 * kFetched <= bounds.end;
  }

  DAMACY_ELEMENT void fetch(u64 address) {
    skip = static_cast<u32>(address) & (kPiece - 1);
    DAMACY_UNROLL
    for (int i = 0; i < kFetched; i += kPiece / 4) {
      const u64 at = address - skip + static_cast<u64>(4 * i);
      if constexpr (kPiece == 8) {
        const u64 both = load<u64>(at);
        words[i] = static_cast<u32>(both);
        words[i + 1] = static_cast<u32>(both >> 32);
      } else {
        words[i] = load<u32>(at);
      }
    }
  }

  DAMACY_ELEMENT u32 word(int i) const {
    if constexpr (kPiece == 4) return word_across(words[i], words[i + 1], 8 * skip);
    const bool second = (skip & 4) != 0;
    const u32 last = i + 2 < kFetched ? words[i + 2] : 0;  // not asked for
    return word_across(second ? words[i + 1] : words[i], second ? last : words[i + 1], 8 * (skip & 3));
  }
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

template <class To, class From>
DAMACY_ELEMENT void store_element(u64 vector, i32 index, From value) {
  store(vector + static_cast<u64>(i64{index}) * sizeof(To), bits_as<UnsignedOf<sizeof(To)>>(convert<To>(value)));
}

// The elements of a vector, and how they are stored.
template <class From, class To, int kCount>
struct Vector {
  static constexpr int kWords = kCount * static_cast<int>(sizeof(To)) / 4;
  From values[kCount];

  DAMACY_ELEMENT void swap(u32 part) {
    if (part == 0) return;
    DAMACY_UNROLL
    for (int i = 0; i < kCount; ++i) values[i] = swapped(values[i], part);
  }

  DAMACY_ELEMENT void write(u64 dst, const Part& part) const {
    u32 words[kWords];
    pack(words);
    if (part.low == 0 && part.high == kCount) {
      DAMACY_UNROLL
      for (int i = 0; i < kWords; i += 4) store_vector(dst + 4u * static_cast<u32>(i), words + i);
      return;
    }
    write_words(words, dst, part);
    if constexpr (kPerWord > 1) write_ends(words, dst, part);
  }

 private:
  static constexpr int kPerWord = sizeof(To) < 4 ? static_cast<int>(4 / sizeof(To)) : 1;

  DAMACY_ELEMENT static bool is_whole(int word, const Part& part) {
    const int first = sizeof(To) == 8 ? word / 2 : word * kPerWord;
    return first >= part.low && first + kPerWord <= part.high;
  }

  // What is there of whole words, two at a time where that can be: each store costs a sector of the L2 cache.
  DAMACY_ELEMENT static void write_words(const u32* words, u64 dst, const Part& part) {
    DAMACY_UNROLL
    for (int i = 0; i < kWords; i += 2, dst += 8) {
      const bool first = is_whole(i, part), second = is_whole(i + 1, part);
      if (first && second)
        store(dst, static_cast<u64>(words[i + 1]) << 32 | words[i]);
      else if (first)
        store(dst, words[i]);
      else if (second)
        store(dst + 4, words[i + 1]);
    }
  }

  // The elements of words that are there in part: of the first and of the last.
  DAMACY_ELEMENT static void write_ends(const u32* words, u64 dst, const Part& part) {
    const i32 first = part.low / kPerWord, last = part.high / kPerWord;
    const bool head = part.low % kPerWord != 0;
    if (head) write_some(words, dst, part, first);
    if (part.high % kPerWord != 0 && !(head && first == last)) write_some(words, dst, part, last);
  }

  DAMACY_ELEMENT static void write_some(const u32* words, u64 dst, const Part& part, i32 index) {
    u32 word = words[0];
    DAMACY_UNROLL
    for (int i = 1; i < kWords; ++i) word = index == i ? words[i] : word;
    DAMACY_UNROLL
    for (int k = 0; k < kPerWord; ++k) {
      const i32 i = index * kPerWord + k;
      if (i >= part.low && i < part.high)
        store(dst + static_cast<u64>(i64{i}) * sizeof(To), static_cast<Raw>(word >> (8 * sizeof(To) * k)));
    }
  }

  using Raw = UnsignedOf<sizeof(To)>;

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

  DAMACY_ELEMENT static void put(u32* words, int i, Raw raw) {
    if constexpr (sizeof(To) == 8) {
      words[2 * i] = static_cast<u32>(raw);
      words[2 * i + 1] = static_cast<u32>(raw >> 32);
    } else {
      words[i / kPerWord] |= static_cast<u32>(raw) << (8 * sizeof(To) * (i % kPerWord));
    }
  }
};

}  // namespace damacy::copy_cuda
