// Tiles that only move bits, or turn signs: in parts of 1 to 16 bytes, several of a thread's on their way at once, or
// in windows, where rows of small elements lie at any alignment. One source for host and device. Knows one tile.
#pragma once

#include "damacy/copy/cuda/tile_work.h"

namespace damacy::copy_cuda {

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

// 16 bytes that go to an aligned address, as the words that hold them.
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
  const u32 most = work.row_bytes() / 16;
  in_rounds<4>(
      work.record.rows * most, thread,
      [&](u32 unit, bool is_there) {
        Window window;
        const u32 row = divide(unit, work.record.by_16);
        const Addresses first = row_addresses(work, row);
        const u32 in_row = (0 - static_cast<u32>(first.dst)) % 16 + 16 * (unit - row * most);
        if (!is_there || in_row + 16 > work.row_bytes()) return window;
        window.to = first.dst + in_row;
        take_window(window, first.src + in_row);
        return window;
      },
      [](const Window& window) {
        if (window.to != 0) put_window(window);
      });
}

// A word that goes to an aligned address, of which bytes `begin` to `end` are the row's.
struct EndWord {
  u64 to;
  u32 begin;
  u32 end = 0;  // 0: none of it
  u32 bits;     // where in `low` it begins
  u32 low = 0;
  u32 high = 0;
};

DAMACY_ELEMENT void take_end_word(EndWord& word, u64 src) {
  const u64 start = src & ~u64{3};
  const u32 before = static_cast<u32>(src & 3);
  word.bits = before * 8;
  if (word.begin + before < 4) word.low = load<u32>(start);
  if (word.end + before > 4) word.high = load<u32>(start + 4);
}

template <class Part>
DAMACY_ELEMENT void put_end_word(const EndWord& word) {
  const u32 value = word_across(word.low, word.high, word.bits);
  if (word.end - word.begin == 4) return store(word.to, value);
  DAMACY_UNROLL
  for (u32 k = 0; k < 4; k += sizeof(Part))
    if (k >= word.begin && k < word.end) store(word.to + k, static_cast<Part>(value >> (8 * k)));
}

// And what of them does not: fewer than 16 bytes at each end, in whole parts. A word of them a thread, so that those of
// threads next to each other are in few lines.
template <class Part>
DAMACY_ELEMENT void move_row_ends(const TileWork& work, u32 thread) {
  constexpr u32 kWords = 4;  // places at an end
  in_rounds<4>(
      work.record.rows * 2 * kWords, thread,
      [&](u32 unit, bool is_there) {
        EndWord word;
        const Addresses first = row_addresses(work, unit / (2 * kWords));
        const bool is_head = unit / kWords % 2 == 0;
        const u32 from_end = is_head ? 0 : work.row_bytes();
        const u32 in_window = (static_cast<u32>(first.dst) + from_end) % 16, at = unit % kWords * 4;
        if (!is_there || in_window == 0 || (is_head ? at + 4 <= in_window : at >= in_window)) return word;
        const u32 cut = in_window - at;  // where in the word the row begins or ends, if it does
        word.begin = is_head && at < in_window ? cut : 0;
        word.end = is_head || cut > 4 ? 4 : cut;
        const i64 in_row = i64{from_end} - static_cast<i32>(cut);
        word.to = first.dst + static_cast<u64>(in_row);
        take_end_word(word, first.src + static_cast<u64>(in_row));
        return word;
      },
      [](const EndWord& word) {
        if (word.end != 0) put_end_word<Part>(word);
      });
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

}  // namespace damacy::copy_cuda
