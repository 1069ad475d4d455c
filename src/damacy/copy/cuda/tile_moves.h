// Tiles that only move bits, or turn signs: in parts of 1 to 16 bytes, several of a thread's on their way at once, or
// in windows, where rows of small elements lie at any alignment. One source for host and device. Knows one tile.
#pragma once

#include <bit>

#include "damacy/copy/cuda/tile_work.h"

namespace damacy::copy_cuda {

// 16 bytes that move together.
struct Words {
  u32 at[4];
};

// Aligned; memory that is not written during the launch.
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

// Units of work by number, several of a thread's on their way at once: `take(unit, is_there)` loads what `put` then
// stores, where it is there.
template <u32 kAtOnce, class Take, class Put>
DAMACY_ELEMENT void in_rounds(u32 units, u32 thread, const Take& take, const Put& put) {
  using Held = decltype(take(u32{}, bool{}));
  DAMACY_NO_UNROLL
  for (u32 first = thread; first < units; first += kAtOnce * kPlanThreads) {
    Held held[kAtOnce];
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k) held[k] = take(first + k * kPlanThreads, first + k * kPlanThreads < units);
    DAMACY_UNROLL
    for (u32 k = 0; k < kAtOnce; ++k)
      if (first + k * kPlanThreads < units) put(held[k]);
  }
}

template <class Part, class To>
struct HeldPart {
  Part part;
  To to;
};

template <class Part>
DAMACY_ELEMENT void move_parts(const TileWork& work, u32 thread) {
  const Steps steps = steps_of<Part>(work);
  const Negation negation = negation_of(work.record);
  in_rounds<4>(
      work.record.rows * steps.count, thread,
      [&](u32 unit, bool is_there) {
        HeldPart<Part, u64> held;
        const u32 row = divide(unit, steps.by);
        const auto step = static_cast<i32>(unit - row * steps.count);
        const Offsets at = row_offsets(work.record, row);
        held.to = work.dst + static_cast<u64>(product_and(step, steps.dst, at.dst));
        if (is_there) held.part = take_part<Part>(work.src + static_cast<u64>(product_and(step, steps.src, at.src)));
        return held;
      },
      [&](const HeldPart<Part, u64>& held) { put_part(held.to, held.part, negation); });
}

// What lies between the first byte that a tile reads and the last may be fetched by the vector.
struct Reach {
  u64 begin;
  u64 bytes;
};

DAMACY_ELEMENT Reach reach_of(const TileWork& work) {
  Reach reach{work.src, work.row_bytes()};
  DAMACY_UNROLL
  for (u32 i = 0; i < TileRecord::kAxes - 1; ++i) {
    const i64 length = product_and(static_cast<i32>(work.record.extent[i] - 1), work.record.src_stride[i], 0);
    if (length < 0) reach.begin += static_cast<u64>(length);
    reach.bytes += static_cast<u64>(length < 0 ? -length : length);
  }
  return reach;
}

// Of an aligned vector the words that hold what may be read.
DAMACY_ELEMENT Words load_within(const Reach& reach, u64 address) {
  Words words{};
  DAMACY_UNROLL
  for (u32 i = 0; i < 4; ++i) {
    const u64 at = address + 4 * i;
    if (at + 4 > reach.begin && at < reach.begin + reach.bytes) words.at[i] = load<u32>(at);
  }
  return words;
}

// 16 bytes on their way, as the two vectors that they lie in.
struct Window {
  u32 shift;  // bytes into the first
  Words low;
  Words high;
};

DAMACY_ELEMENT Window load_window(u64 src, const Reach& reach) {
  const u64 start = src & ~u64{15};
  if (start - reach.begin <= reach.bytes - 32)  // a row has 64 bytes at least
    return {static_cast<u32>(src & 15), load_vector(start), load_vector(start + 16)};
  return {static_cast<u32>(src & 15), load_within(reach, start), load_within(reach, start + 16)};
}

DAMACY_ELEMENT Words bytes_in(const Window& window) {
  const Words &low = window.low, &high = window.high;
  const bool by_two = (window.shift & 8) != 0, by_one = (window.shift & 4) != 0;
  const u32 twice[6] = {by_two ? low.at[2] : low.at[0],   by_two ? low.at[3] : low.at[1],
                        by_two ? high.at[0] : low.at[2],  by_two ? high.at[1] : low.at[3],
                        by_two ? high.at[2] : high.at[0], by_two ? high.at[3] : high.at[1]};
  u32 once[5];
  DAMACY_UNROLL
  for (u32 i = 0; i < 5; ++i) once[i] = by_one ? twice[i + 1] : twice[i];
  Words words;
  DAMACY_UNROLL
  for (u32 i = 0; i < 4; ++i) words.at[i] = word_across(once[i], once[i + 1], window.shift % 4 * 8);
  return words;
}

// The first `count` bytes of one, then those of the other.
DAMACY_ELEMENT Words joined(const Words& first, const Words& then, u32 count) {
  Words words;
  DAMACY_UNROLL
  for (u32 i = 0; i < 4; ++i) {
    const u32 of_first = count < 4 * i ? 0 : count - 4 * i;
    const u32 mask = of_first < 4 ? (u32{1} << (8 * of_first)) - 1 : ~u32{0};
    words.at[i] = (first.at[i] & mask) | (then.at[i] & ~mask);
  }
  return words;
}

// Bytes `begin` to `end` of a vector, part by part.
template <class Part>
DAMACY_ELEMENT void store_parts(u64 vector, const Words& words, u32 begin, u32 end) {
  DAMACY_UNROLL
  for (u32 at = 0; at < 16; at += sizeof(Part))
    if (at >= begin && at < end) store(vector + at, static_cast<Part>(words.at[at / 4] >> (at % 4 * 8)));
}

struct HeldWindow {
  u64 to = 0;  // 0: none
  Window window;
};

// What of each row goes to whole vectors.
DAMACY_ELEMENT void move_windows(const TileWork& work, const Reach& reach, u32 thread) {
  const u32 most = work.row_bytes() / 16;
  in_rounds<2>(
      work.record.rows * most, thread,
      [&](u32 unit, bool is_there) {
        HeldWindow held;
        const u32 row = divide(unit, work.record.by_16);
        const Addresses first = row_addresses(work, row);
        const u32 in_row = (0 - static_cast<u32>(first.dst)) % 16 + 16 * (unit - row * most);
        if (!is_there || in_row + 16 > work.row_bytes()) return held;
        held.to = first.dst + in_row;
        held.window = load_window(first.src + in_row, reach);
        return held;
      },
      [](const HeldWindow& held) {
        if (held.to != 0) store_vector(held.to, bytes_in(held.window).at);
      });
}

// And what of them does not: fewer than 16 bytes at each end, a Part a thread, so that what is stored at once is in few
// lines. A thread keeps its place in the row: first all of the end, then all of the beginning.
template <class Part>
DAMACY_ELEMENT void move_row_ends(const TileWork& work, u32 thread) {
  constexpr u32 kParts = 16 / sizeof(Part), kPartBits = std::bit_width(kParts) - 1;  // places at an end
  const bool has_heads = ((static_cast<u32>(work.dst) & 15) | work.record.dst_bits) != 0;
  const u32 places = has_heads ? 2 * kParts : kParts, by_places = has_heads ? kPartBits + 1 : kPartBits;
  const u32 place = thread % places, from = place < kParts ? work.row_bytes() : 0;
  const u32 in_vector = place % kParts * static_cast<u32>(sizeof(Part));
  in_rounds<4>(
      work.record.rows * places, thread,
      [&](u32 unit, bool is_there) {
        HeldPart<Part, u64> held;
        held.to = 0;
        const Addresses first = row_addresses(work, unit >> by_places);
        const u32 border = (static_cast<u32>(first.dst) + from) % 16;
        if (!is_there || border == 0 || (in_vector < border) != (place < kParts)) return held;
        const u64 in_row = u64{from} - border + in_vector;
        held.to = first.dst + in_row;
        held.part = load<Part>(first.src + in_row);
        return held;
      },
      [](const HeldPart<Part, u64>& held) {
        if (held.to != 0) store(held.to, held.part);
      });
}

// Whether rows lie end to end in the destination.
DAMACY_ELEMENT bool is_dense(const TileWork& work) {
  u32 bytes = work.row_bytes();
  bool dense = true;
  DAMACY_UNROLL
  for (u32 i = TileRecord::kAxes - 1; i-- > 0;) {
    const u32 extent = work.record.extent[i];
    dense = dense && (extent == 1 || static_cast<u32>(work.record.dst_stride[i]) == bytes);
    bytes *= extent;
  }
  return dense;
}

// There, instead: vectors that hold the end of a row and the beginning of the next. Stored at once, as a device has to
// read what is stored piece by piece.
template <class Part>
DAMACY_ELEMENT void move_seams(const TileWork& work, const Reach& reach, u32 thread) {
  const u32 row_bytes = work.row_bytes(), rows = work.record.rows;
  DAMACY_NO_UNROLL
  for (u32 row = thread; row <= rows; row += kPlanThreads) {
    const u64 begin = work.dst + row * row_bytes;
    const u32 border = static_cast<u32>(begin) % 16;
    if (border == 0) continue;
    Window last, next;
    if (row > 0) last = load_window(row_addresses(work, row - 1).src + row_bytes - border, reach);
    if (row < rows) next = load_window(row_addresses(work, row).src - border, reach);
    if (row == 0)
      store_parts<Part>(begin - border, bytes_in(next), border, 16);
    else if (row == rows)
      store_parts<Part>(begin - border, bytes_in(last), 0, border);
    else
      store_vector(begin - border, joined(bytes_in(last), bytes_in(next), border).at);
  }
}

// Rows of small elements at any alignment.
template <class Part>
DAMACY_ELEMENT void move_rows(const TileWork& work, u32 thread) {
  const Reach reach = reach_of(work);
  move_windows(work, reach, thread);
  if (is_dense(work)) return move_seams<Part>(work, reach, thread);
  move_row_ends<Part>(work, thread);
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
      if (work.record.to_bytes == 4) return move_rows<u32>(work, thread);
      return work.record.to_bytes == 2 ? move_rows<u16>(work, thread) : move_rows<u8>(work, thread);
  }
}

}  // namespace damacy::copy_cuda
