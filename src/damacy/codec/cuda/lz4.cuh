// LZ4 blocks to records, one warp a block. Where a token's successor stands depends on the token's own bytes alone, so
// every position of a window is read as if a token stood there. The tokens that do stand there are a chain from the
// first one, followed four at a time through shared memory. Then every lane takes one of them, and a scan over their
// lengths says where its output begins.
//
// Lengths of 270 bytes and more, and the end of the block, are read with care, token by token from memory.
#pragma once

#include "damacy/codec/cuda/simt.cuh"
#include "damacy/codec/cuda/wave_view.cuh"
#include "damacy/codec/gpu_zstd/lz4_records.h"

namespace damacy::gpu {

struct Lz4Memory {
  static constexpr u32 kWindow = 512;
  static constexpr u32 kReach = 288;  // how far behind its own position a token of the window is read
  static constexpr u32 kBytes = kWindow + kReach;
  static constexpr u32 kFourths = kWindow / 12 + 2;  // a token has three bytes at least

  alignas(16) u8 bytes[2][kBytes];  // this window's, and the next one's on their way
  u16 next[kWindow];                // one token on; itself where care is needed
  u16 second[kWindow];              // two tokens on, or as far as that goes within the window
  u16 fourth[kWindow];
  u16 chain[kFourths];  // every fourth token, from the first on
};

// One sequence that takes no care. Positions count from the window's first byte.
struct Lz4Token {
  u32 literal, literal_length, match_length, offset_at, next;
  bool plain;

  __device__ __forceinline__ static Lz4Token read(const u8* bytes, u32 at) {
    Lz4Token token{};
    const u32 lengths = bytes[at++];
    token.literal_length = lengths >> 4;
    token.match_length = lengths & 15;
    token.plain = true;
    if (token.literal_length == 15) token.extend(token.literal_length, bytes[at++]);
    token.literal = at;
    token.offset_at = at + token.literal_length;
    token.next = token.offset_at + 2;
    if (token.match_length == 15) token.extend(token.match_length, bytes[token.next++]);
    token.match_length += kLz4MinMatch;
    return token;
  }

 private:
  __device__ __forceinline__ void extend(u32& length, u32 byte) {
    length += byte;
    plain = plain && byte != 255;
  }
};

// The warp's place in one block. Every lane has the same, but for what its name says.
class Lz4Warp {
 public:
  using Step = Lz4Parser::Step;

  __device__ __forceinline__ Lz4Warp(Lz4Memory& memory, const WaveView& wave, const Frame& frame)
      : memory_(memory),
        source_(wave.source + frame.source),
        records_(wave.records + frame.records),
        runs_(wave.lz4_runs + frame.first_block),
        capacity_(frame.record_capacity),
        source_size_(frame.source_size),
        size_(frame.size),
        needed_(frame.needed),
        lead_(static_cast<u32>(reinterpret_cast<u64>(source_) & 15)),
        lane_(threadIdx.x),
        place_(lead_) {
    fetch(0);
  }

  // The bytes that its records produce; 0 when the block is malformed.
  __device__ __forceinline__ u32 run() {
    auto step = Step::more;
    while (step == Step::more) {
      open_window();
      do {
        step = follow_chain();
        if (step == Step::more && in_window()) step = take_care();
      } while (step == Step::more && in_window());
    }
    if (step == Step::fault) return 0;
    if (lane_ == 0) Lz4RecordWriter(records_, capacity_, runs_, count_, produced_).finish();
    return produced_;
  }

 private:
  static constexpr u32 kWindow = Lz4Memory::kWindow;

  // Byte i of the block, for the parser.
  struct Input {
    const u8* bytes;
    u32 size;
    __device__ __forceinline__ u32 byte(u32 i) const { return i < size ? bytes[i] : 0; }
  };

  __device__ __forceinline__ bool in_window() const { return place_ - begin_ < kWindow; }

  // Asks for the window at `begin`, without waiting.
  __device__ __forceinline__ void fetch(u32 begin) {
    ahead_ = begin;
    const u8* from = source_ - lead_ + begin;
    u8* to = memory_.bytes[turn_];
    for (u32 at = 16 * lane_; at < Lz4Memory::kBytes; at += 16 * kWarp)
      if (begin + at < lead_ + source_size_) copy_async_16(to + at, from + at);
    copy_async_commit();
  }

  __device__ __forceinline__ void open_window() {
    copy_async_wait();
    if (place_ - ahead_ >= kWindow) {  // a long sequence went past what was fetched
      fetch(place_ & ~15u);
      copy_async_wait();
    }
    __syncwarp();
    begin_ = ahead_;
    bytes_ = memory_.bytes[turn_];
    turn_ ^= 1;
    fetch(begin_ + kWindow);
    find_successors();
  }

  __device__ __forceinline__ void find_successors() {
    const u32 end = lead_ + source_size_ - begin_;
    DAMACY_UNROLL(4)
    for (u32 at = lane_; at < kWindow; at += kWarp) {
      const Lz4Token token = Lz4Token::read(bytes_, at);
      const bool plain = token.plain && token.offset_at + kLz4InputMargin <= end;
      memory_.next[at] = static_cast<u16>(plain ? token.next : at);
    }
    __syncwarp();
    combine(memory_.next, memory_.second);
    combine(memory_.second, memory_.fourth);
  }

  __device__ __forceinline__ static u32 follow(const u16* steps, u32 at) { return at < kWindow ? steps[at] : at; }

  // twice[i]: two of `steps` from i on.
  __device__ __forceinline__ void combine(const u16* steps, u16* twice) {
    DAMACY_UNROLL(4)
    for (u32 at = lane_; at < kWindow; at += kWarp) twice[at] = static_cast<u16>(follow(steps, steps[at]));
    __syncwarp();
  }

  // Takes tokens up to one that leaves the window or wants care.
  __device__ __forceinline__ Step follow_chain() {
    u32 at = place_ - begin_, fourths = 0;
    while (at < kWindow) {
      const u32 next = memory_.fourth[at];
      if (next == at) break;
      if (lane_ == 0) memory_.chain[fourths] = static_cast<u16>(at);
      ++fourths;
      at = next;
    }
    __syncwarp();
    auto step = Step::more;
    for (u32 first = 0; first < 4 * fourths && step == Step::more; first += kWarp) step = put_tokens(first, fourths);
    __syncwarp();
    place_ = begin_ + at;
    return step;
  }

  // Tokens first .. first + 32 of the chain, one a lane.
  __device__ __forceinline__ Step put_tokens(u32 first, u32 fourths) {
    const u32 mine = first + lane_;
    u32 at = mine < 4 * fourths ? memory_.chain[mine / 4] : kWindow;
    if ((mine & 2) != 0) at = follow(memory_.second, at);
    if ((mine & 1) != 0) at = follow(memory_.next, at);
    const bool there = at < kWindow && memory_.next[at] != at;
    const Lz4Token token = Lz4Token::read(bytes_, there ? at : 0);
    const u32 length = there ? token.literal_length + token.match_length : 0;
    const u32 end = produced_ + sum_up_to_me(length), begin = end - length, match = begin + token.literal_length;
    const bool kept = there && begin < needed_;
    const u32 offset = bytes_[token.offset_at] | bytes_[token.offset_at + 1] << 8;
    bool good = match + kLz4MatchMargin <= size_ && end + kLz4LastLiterals <= size_ && offset - 1 < match;
    const u32 cut = __ballot_sync(kWholeWarp, kept && begin / kLz4Block != (end - 1) / kLz4Block);  // in two records
    const u32 index = count_ + lane_ + __popc(cut & ((1u << lane_) - 1));
    if (kept && good) {
      Lz4RecordWriter writer(records_, capacity_, runs_, index, begin);
      good = writer.put(begin_ + token.literal - lead_, token.literal_length, token.match_length, offset);
    }
    if (__any_sync(kWholeWarp, kept && !good)) return Step::fault;
    const u32 all = __popc(__ballot_sync(kWholeWarp, kept));
    count_ += all + __popc(cut);
    produced_ = __shfl_sync(kWholeWarp, end, all - 1);  // the first one is kept always
    return produced_ >= needed_ ? Step::done : Step::more;
  }

  __device__ __forceinline__ u32 sum_up_to_me(u32 value) const {
    DAMACY_UNROLL(5)
    for (u32 distance = 1; distance < kWarp; distance *= 2) {
      const u32 other = __shfl_sync(kWholeWarp, value, (lane_ - distance) & 31);
      if (lane_ >= distance) value += other;
    }
    return value;
  }

  // One token at place_, whatever it is. All lanes read, the first one writes.
  __device__ __forceinline__ Step take_care() {
    Lz4Parser parser(source_size_, size_, place_ - lead_);
    const auto step = parser.sequence(Input{source_, source_size_}, produced_);
    if (step == Step::fault) return step;
    Lz4RecordWriter writer(records_, capacity_, runs_, count_, produced_);
    const bool fits = lane_ != 0 || parser.write(writer);
    if (!__all_sync(kWholeWarp, fits)) return Step::fault;
    count_ = __shfl_sync(kWholeWarp, writer.count(), 0);
    produced_ = __shfl_sync(kWholeWarp, writer.produced(), 0);
    place_ = lead_ + parser.position();
    return produced_ >= needed_ ? Step::done : step;
  }

  Lz4Memory& memory_;
  const u8* source_;
  u64* records_;
  Lz4Run* runs_;
  u32 capacity_, source_size_, size_, needed_;
  u32 lead_;  // places count from the 16-byte boundary at or below the block
  u32 lane_;
  u32 place_;      // the next token
  u32 begin_ = 0;  // the window
  u32 ahead_ = 0;  // the window that was fetched last
  u32 turn_ = 0;   // where that lies
  const u8* bytes_ = nullptr;
  u32 count_ = 0, produced_ = 0;  // records, and bytes of output that they describe
};

static __global__ void __launch_bounds__(kWarp) parse_lz4(WaveView wave) {
  __shared__ Lz4Memory memory;
  const u32 index = wave.lz4_order[blockIdx.x];
  const u32 produced = Lz4Warp(memory, wave, wave.frames[index]).run();
  if (threadIdx.x != 0) return;
  wave.lz4_counts[blockIdx.x] = produced;
  wave.status[index] = static_cast<u32>(produced != 0 ? Fault::none : Fault::lz4);
}

}  // namespace damacy::gpu
