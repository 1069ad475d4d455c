// A bit stream read from its end towards its start, through a ring of 16-byte slots in shared memory that belongs to
// one lane. The lane tops it up on a fixed schedule and never waits for memory: one lane's cache miss would stall its
// warp.
//
// Positions are bits counted from the 16-byte boundary at or below the stream. Slot indices are masked, so that a
// corrupt position cannot leave the ring; slots are fetched only between that boundary and the stream's last byte.
#pragma once

#include "damacy/codec/cuda/simt.cuh"

namespace damacy::gpu {

template <int kSlots>
class BackwardRing {
 public:
  static constexpr u32 kMirrorWords = 4;  // in front: the last slot again, so that words below slot 0 need no wrap
  static constexpr u32 kWords = kMirrorWords + kSlots * 4;

  // `memory` has kWords words, 16-byte aligned. The last byte of the stream is not 0.
  __device__ __forceinline__ BackwardRing(u32* memory, const u8* stream, u32 size) : ring_(memory + kMirrorWords) {
    const u64 address = reinterpret_cast<u64>(stream);
    base_ = stream - (address & 15);
    first_ = 8 * static_cast<int>(address & 15);
    position = first_ + 8 * static_cast<int>(size - 1) + static_cast<int>(log2_floor(stream[size - 1]));
    next_slot_ = position >> 7;
  }

  __device__ __forceinline__ bool overrun() const { return position < first_; }
  __device__ __forceinline__ bool at_start() const { return position == first_; }
  __device__ __forceinline__ void rewind() { position = first_; }

  // Asks for the slots that fit, without waiting.
  __device__ __forceinline__ void fetch() {
    int lowest = (position >> 7) - (kSlots - 1);
    lowest = lowest > 0 ? lowest : 0;
    if (next_slot_ >= lowest) fetch_slot();  // usually one, sometimes two
    if (next_slot_ >= lowest) fetch_slot();
    while (next_slot_ >= lowest) fetch_slot();
    copy_async_commit();
  }

  // The word that holds bit `bit`, and at [-1], [-2], [-3] those below it.
  __device__ __forceinline__ const u32* word_at(int bit) const {
    return reinterpret_cast<const u32*>(reinterpret_cast<const char*>(ring_) + (bit >> 3 & (kSlots * 16 - 4)));
  }

  // 32 bits below the position, the next one highest.
  __device__ __forceinline__ u32 peek() const {
    const u32* word = word_at(position);
    return __funnelshift_r(word[-1], word[0], static_cast<u32>(position));
  }

  int position;  // one above the next bit

 private:
  __device__ __forceinline__ void fetch_slot() {
    const u32 slot = static_cast<u32>(next_slot_) & (kSlots - 1);
    const u8* from = base_ + 16 * static_cast<u64>(static_cast<u32>(next_slot_));
    copy_async_16(ring_ + 4 * slot, from);
    if (slot == kSlots - 1) copy_async_16(ring_ - 4, from);
    --next_slot_;
  }

  u32* ring_;
  const u8* base_;
  int first_;
  int next_slot_;
};

}  // namespace damacy::gpu
