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

}  // namespace damacy::copy_cuda
