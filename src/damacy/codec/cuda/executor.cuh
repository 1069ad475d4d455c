// Turns sequence records into bytes. Works on output bytes instead of sequences: in a window of the output every byte
// first learns its source address, then all bytes of the window move at once, coalesced.
//
// A window takes up to T sequences (one a thread) and up to T * kRows bytes. 1: a thread sets its sequence's start bit
// in a bitmap of the window, and its own number in every row of 32 bytes whose first byte it covers. 2: a byte's
// sequence is its row's number plus the start bits up to the byte; that gives its source. 3: sources inside the window
// are followed through a table in shared memory until they leave it, so dependencies cost shared-memory steps and no
// memory round trips; a source lies strictly before its byte, so this ends. 4: all bytes are loaded, then all are
// stored.
#pragma once

#include "damacy/codec/cuda/simt.cuh"
#include "damacy/codec/gpu_zstd/lz4_records.h"
#include "damacy/codec/gpu_zstd/sequences.h"

namespace damacy::gpu {

inline constexpr u32 kLiteralMark = 0x80000000u;  // in a source: counts from the literals, else from the frame's output
inline constexpr u32 kNoOffset = 0x40000000u;     // longer than any match

// One sequence of a run. Positions count from the run's first byte; literal byte of output p is p + literal.
struct SequenceView {
  u32 begin, match, end;
  u32 literal;
  u32 offset;
  bool valid;
};

// The records of one zstd block, and behind them its last literals as one more sequence.
struct ZstdRun {
  const u64* records;
  u32 count;
  u32 size;
  u32 literal_size;
  u32 reach;                     // bytes of the segment before this block
  const RepeatOffsets* history;  // in shared memory: rarely read, and registers are short

  __device__ __forceinline__ u32 items() const { return count + 1; }
  __device__ __forceinline__ SequenceView view(u32 item, u64 record, u64 previous) const {
    SequenceView view;
    u32 literal_begin = SequenceRecord::literal_end(previous), literal_end = SequenceRecord::literal_end(record);
    view.begin = SequenceRecord::output_end(previous);
    view.end = SequenceRecord::output_end(record);
    if (item >= count) {
      view.end = size;
      literal_end = literal_size;
      if (item > count) view.begin = size;
    }
    view.match = view.begin + (literal_end - literal_begin);
    view.literal = literal_begin - view.begin;
    view.offset = kNoOffset;
    view.valid = true;
    if (item < count) {
      view.offset = history->resolve(SequenceRecord::offset(record));
      view.valid = view.offset != 0 && view.offset <= reach + view.match;
    }
    return view;
  }
};

// One run of an LZ4 frame. The parser has checked everything.
struct Lz4RunView {
  const u64* records;
  u32 count;
  u32 size;
  u32 literal_base;

  __device__ __forceinline__ u32 items() const { return count; }
  __device__ __forceinline__ SequenceView view(u32 item, u64 record, u64 previous) const {
    SequenceView view;
    view.begin = item == 0 ? 0 : Lz4Record::output_end(previous);
    view.end = Lz4Record::output_end(record);
    if (item >= count) view.begin = view.end = size;
    view.match = view.begin + Lz4Record::literal_length(record);
    view.literal = Lz4Record::literal(record, literal_base) - view.begin;
    const u32 offset = Lz4Record::offset(record);
    view.offset = offset != 0 ? offset : kNoOffset;
    view.valid = true;
    return view;
  }
};

template <int kWarps, int kRows>
struct ExecutorMemory {
  static constexpr u32 kThreads = kWarp * kWarps;
  static constexpr u32 kBytes = kThreads * kRows;
  static constexpr u32 kRowCount = kBytes / kWarp;

  // Of a thread's sequence: match begin, begin of its own overlap, source - byte for literals, for matches.
  uint4 sequences[kThreads];
  u32 sources[kBytes];
  uint2 rows[2][kRowCount];  // start bits, first sequence; one for this window and one being cleared
  u32 window_end;
  u32 fault;
};

template <int kWarps, int kRows>
class Executor {
 public:
  using Memory = ExecutorMemory<kWarps, kRows>;
  static constexpr u32 kThreads = Memory::kThreads;
  static constexpr u32 kBytes = Memory::kBytes;

  __device__ __forceinline__ Executor(Memory& memory, u8* out)
      : memory_(memory), out_(out), thread_(threadIdx.x), lane_(threadIdx.x & 31), warp_(threadIdx.x >> 5) {
    for (u32 i = thread_; i < 2 * Memory::kRowCount; i += kThreads)
      memory_.rows[i / Memory::kRowCount][i % Memory::kRowCount] = make_uint2(0, 0);
    if (thread_ == 0) memory_.fault = 0;
    __syncthreads();
  }

  // Writes bytes [position, position + limit) of the output, limit <= run.size. False when a sequence was refused, also
  // one behind the limit.
  template <class Run>
  __device__ __forceinline__ bool run(const Run& run, const u8* literals, u32 position, u32 limit) {
    u32 item = thread_;  // this thread's sequence of the window
    u64 record = 0, previous = 0;
    load(run, item, record, previous);
    for (u32 begin = 0; begin < limit;) {
      uint2* rows = memory_.rows[turn_];
      turn_ ^= 1;
      const SequenceView view = run.view(item, record, previous);
      announce(view, rows, position, begin);
      const u32 my_end = item < run.items() ? view.end : kNone;
      __syncthreads();
      const u32 end = memory_.window_end;
      if (memory_.fault != 0) return false;
      u32 sources[kRows];
      find_sources(rows, begin, end - begin, sources);
      item += static_cast<u32>(__syncthreads_count(my_end <= end));
      load(run, item, record, previous);  // lands while the bytes move
      move(literals, position + begin, end - begin, sources);
      begin = end;
    }
    __syncthreads();  // what follows may read these bytes
    return limit == run.size || rest_is_valid(run, item);
  }

  // `count` bytes of a raw block, or the byte at `from` so often. Whole words at aligned destinations; the source is
  // realigned by funnel shifts and padded.
  __device__ __forceinline__ void copy(u32 position, const u8* from, u32 count, bool repeat) {
    u8* to = out_ + position;
    u32 head = static_cast<u32>(0 - reinterpret_cast<u64>(to)) & 3;
    if (head > count) head = count;
    const u32 fill = repeat ? from[0] * 0x01010101u : 0;
    if (thread_ < head) to[thread_] = repeat ? static_cast<u8>(fill) : from[thread_];
    const u32 words = (count - head) / 4, tail = head + words * 4;
    u32* out = reinterpret_cast<u32*>(to + head);
    if (repeat) {
      for (u32 i = thread_; i < words; i += kThreads) out[i] = fill;
    } else {
      const u64 address = reinterpret_cast<u64>(from + head);
      const u32* in = reinterpret_cast<const u32*>(from + head - (address & 3));
      const u32 shift = 8 * static_cast<u32>(address & 3);
      DAMACY_UNROLL(4)
      for (u32 i = thread_; i < words; i += kThreads) out[i] = __funnelshift_r(in[i], in[i + 1], shift);
    }
    if (thread_ < count - tail) to[tail + thread_] = repeat ? static_cast<u8>(fill) : from[tail + thread_];
    __syncthreads();
  }

 private:
  template <class Run>
  __device__ __forceinline__ static void load(const Run& run, u32 item, u64& record, u64& previous) {
    record = item < run.count ? run.records[item] : 0;
    previous = item != 0 && item <= run.count ? run.records[item - 1] : 0;
  }

  // Sequences behind the limit write nothing. An offset that leads before the segment refuses the block all the same,
  // as on the host; without this the verdict would depend on the number of threads.
  template <class Run>
  __device__ __forceinline__ static bool rest_is_valid(const Run& run, u32 item) {
    bool bad = false;
    for (; item < run.items(); item += kThreads) {
      u64 record = 0, previous = 0;
      load(run, item, record, previous);
      bad = bad || !run.view(item, record, previous).valid;
    }
    return __syncthreads_count(bad) == 0;
  }

  // Step 1: this thread's sequence, its constants, and where it starts.
  __device__ __forceinline__ void announce(const SequenceView& view, uint2* rows, u32 position, u32 begin) {
    if (!view.valid) memory_.fault = 1;
    memory_.sequences[thread_] =
        make_uint4(view.match, view.match + view.offset, kLiteralMark + view.literal, position - view.offset);
    if (thread_ < Memory::kRowCount) memory_.rows[turn_][thread_].x = 0;  // the next window's
    if (view.end > view.begin) {
      const u32 start = view.begin - begin;
      if (view.begin >= begin && start < kBytes) atomicOr(&rows[start >> 5].x, 1u << (start & 31));
      const u32 from = view.begin <= begin ? 0 : (start + 31) >> 5;
      u32 last = (view.end - 1 - begin) >> 5;
      if (last > Memory::kRowCount - 1) last = Memory::kRowCount - 1;
      for (u32 row = from; row <= last && row < Memory::kRowCount; ++row) rows[row].y = thread_;
    }
    if (thread_ == kThreads - 1) memory_.window_end = view.end < begin + kBytes ? view.end : begin + kBytes;
  }

  // Row r of this thread: byte r * kThreads + thread_ of the window.
  __device__ __forceinline__ bool in_window(u32 row, u32 span) const { return row * kThreads + thread_ < span; }

  // A match that overlaps itself repeats its first `offset` bytes. A float quotient is off by one at most.
  __device__ __forceinline__ static u32 wrapped(u32 byte, const uint4& sequence) {
    const u32 distance = byte - sequence.x, offset = sequence.y - sequence.x;
    const u32 quotient = static_cast<u32>(static_cast<float>(distance) * reciprocal(static_cast<float>(offset)));
    u32 rest = distance - quotient * offset;
    if (static_cast<int>(rest) < 0) rest += offset;
    if (rest >= offset) rest -= offset;
    return sequence.x + sequence.w + rest;
  }

  // Step 2. Two rows at a time; a row behind the window has stale but valid numbers, and nothing uses what comes out.
  __device__ __forceinline__ void find_sources(const uint2* rows, u32 begin, u32 span, u32 (&sources)[kRows]) {
    const u32 up_to_me = (2u << lane_) - 2;  // bits 1..lane: a start on bit 0 is in the row's number
    DAMACY_UNROLL(16)
    for (u32 r = 0; r < kRows; r += 2) {
      sources[r] = sources[r + 1] = kLiteralMark;
      if (r * kThreads + warp_ * kWarp >= span) continue;
      const uint2 a = rows[r * kWarps + warp_], b = rows[(r + 1) * kWarps + warp_];
      const uint4 sequence_a = memory_.sequences[a.y + __popc(a.x & up_to_me)];
      const uint4 sequence_b = memory_.sequences[b.y + __popc(b.x & up_to_me)];
      const u32 byte_a = begin + thread_ + r * kThreads, byte_b = byte_a + kThreads;
      u32 source_a = byte_a + (byte_a < sequence_a.x ? sequence_a.z : sequence_a.w);
      u32 source_b = byte_b + (byte_b < sequence_b.x ? sequence_b.z : sequence_b.w);
      if (byte_a >= sequence_a.y && in_window(r, span)) source_a = wrapped(byte_a, sequence_a);
      if (byte_b >= sequence_b.y && in_window(r + 1, span)) source_b = wrapped(byte_b, sequence_b);
      sources[r] = source_a;
      sources[r + 1] = source_b;
      memory_.sources[r * kThreads + thread_] = source_a;
      memory_.sources[(r + 1) * kThreads + thread_] = source_b;
    }
  }

  // Steps 3 and 4. `origin`: the window's first byte in the output.
  __device__ __forceinline__ void move(const u8* literals, u32 origin, u32 span, u32 (&sources)[kRows]) {
    DAMACY_UNROLL(16)
    for (u32 r = 0; r < kRows; ++r) {
      if (!in_window(r, span)) continue;
      while (sources[r] - origin < span) sources[r] = memory_.sources[sources[r] - origin];
    }
    u8 bytes[kRows] = {};
    DAMACY_UNROLL(16)
    for (u32 r = 0; r < kRows; ++r) {
      if (!in_window(r, span)) continue;
      const u8* base = (sources[r] & kLiteralMark) != 0 ? literals : out_;
      bytes[r] = base[sources[r] & ~kLiteralMark];
    }
    u8* to = out_ + origin + thread_;
    DAMACY_UNROLL(16)
    for (u32 r = 0; r < kRows; ++r)
      if (in_window(r, span)) to[r * kThreads] = bytes[r];
  }

  Memory& memory_;
  u8* out_;
  u32 thread_, lane_, warp_;
  u32 turn_ = 0;
};

}  // namespace damacy::gpu
