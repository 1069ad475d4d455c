// Content checksums of zstd segments, behind execution: XXH64 is four chains, so four lanes a segment.
#pragma once

#include "damacy/codec/cuda/simt.cuh"
#include "damacy/codec/cuda/wave_view.cuh"
#include "damacy/codec/gpu_zstd/xxh64.h"

namespace damacy::gpu {

inline constexpr u32 kSegmentsPerWarp = 8;

// Eight bytes at any address, from aligned words only; never outside words that hold wanted bytes.
__device__ __forceinline__ u64 load_u64(const u8* at) {
  const u64 address = reinterpret_cast<u64>(at);
  const u64* word = reinterpret_cast<const u64*>(at - (address & 7));
  const u32 shift = 8 * static_cast<u32>(address & 7);
  return shift == 0 ? word[0] : word[0] >> shift | word[1] << (64 - shift);
}

// Loads ahead of the chain: it is all latency.
__device__ __forceinline__ u64 hash_lane(const u8* bytes, u32 stripes, u32 lane) {
  constexpr u32 kAhead = 8;
  u64 chain = Xxh64::start(lane);
  const u8* at = bytes + lane * 8;
  u32 i = 0;
  for (; i + kAhead <= stripes; i += kAhead, at += kAhead * Xxh64::kStripe) {
    u64 input[kAhead];
    DAMACY_UNROLL(16)
    for (u32 k = 0; k < kAhead; ++k) input[k] = load_u64(at + k * Xxh64::kStripe);
    DAMACY_UNROLL(16)
    for (u32 k = 0; k < kAhead; ++k) chain = Xxh64::round(chain, input[k]);
  }
  for (; i < stripes; ++i, at += Xxh64::kStripe) chain = Xxh64::round(chain, load_u64(at));
  return chain;
}

__device__ __forceinline__ u64 from_lane(u64 value, u32 lane) {
  const u32 low = __shfl_sync(kWholeWarp, static_cast<u32>(value), lane);
  const u32 high = __shfl_sync(kWholeWarp, static_cast<u32>(value >> 32), lane);
  return static_cast<u64>(high) << 32 | low;
}

static __global__ void __launch_bounds__(kWarp) verify_checksums(WaveView wave) {
  const u32 group = threadIdx.x >> 2, lane = threadIdx.x & 3, index = blockIdx.x * kSegmentsPerWarp + group;
  const bool mine =
      index < wave.segment_count && wave.segments[index].has_checksum != 0 && wave.segment_ranges[index].complete != 0;
  const Segment segment = mine ? wave.segments[index] : Segment{0, 0, 0, 0};
  const SegmentRange range = mine ? wave.segment_ranges[index] : SegmentRange{0, 0, 0, 0};
  const u32 size = range.end - range.begin, stripes = size / Xxh64::kStripe;
  const u8* bytes = wave.destination + (mine ? wave.frames[segment.frame].destination : 0) + range.begin;
  const u64 chain = hash_lane(bytes, stripes, lane);
  u64 chains[4];
  DAMACY_UNROLL(16)
  for (u32 i = 0; i < 4; ++i) chains[i] = from_lane(chain, group * 4 + i);
  if (!mine || lane != 0) return;
  const u64 merged = stripes == 0 ? Xxh64::kPrime5 : Xxh64::merge(chains[0], chains[1], chains[2], chains[3]);
  const u64 hash = Xxh64::finish(merged, size, bytes + stripes * Xxh64::kStripe);
  if (static_cast<u32>(hash) != segment.checksum && wave.status[segment.frame] == 0)
    wave.status[segment.frame] = static_cast<u32>(Fault::checksum);
}

}  // namespace damacy::gpu
