// LZ4 blocks to records: one lane a block reads tokens through a ring in shared memory that its warp's schedule tops
// up. What is not in the ring, far behind a long literal run, is waited for, not loaded; only very long lengths read
// memory.
#pragma once

#include "damacy/codec/cuda/simt.cuh"
#include "damacy/codec/cuda/wave_view.cuh"
#include "damacy/codec/gpu_zstd/lz4_records.h"

namespace damacy::gpu {

class ForwardRing {
 public:
  static constexpr u32 kSlots = 16;
  static constexpr u32 kBytes = kSlots * 16;
  struct alignas(16) Memory {
    u8 bytes[kBytes];
    u8 stagger[16];  // so that lanes start in different banks
  };

  __device__ __forceinline__ ForwardRing(u8* memory, const u8* source, u32 size)
      : ring_(memory), lead_(static_cast<u32>(reinterpret_cast<u64>(source) & 15)), size_(size) {
    base_ = source - lead_;
    end_slot_ = (lead_ + size + 15) / 16;
  }

  // Asks for the slots from byte `at` on, without waiting. What was asked for before must have landed.
  __device__ __forceinline__ void fetch(u32 at) {
    landed_ = next_slot_ * 16;
    const u32 slot = (lead_ + at) >> 4;
    if (slot > next_slot_) next_slot_ = slot;
    while (next_slot_ < end_slot_ && next_slot_ < slot + kSlots) {
      copy_async_16(ring_ + (next_slot_ & (kSlots - 1)) * 16, base_ + 16 * static_cast<u64>(next_slot_));
      ++next_slot_;
    }
    copy_async_commit();
  }

  // Bytes [at, at + count) are in the ring, or as many as there are.
  __device__ __forceinline__ bool has(u32 at, u32 count) const {
    return lead_ + at + count <= landed_ || landed_ >= end_slot_ * 16;
  }

  // Byte `at`, not before the last fetch's; 0 behind the end.
  __device__ __forceinline__ u32 byte(u32 at) const {
    if (at >= size_) return 0;
    const u32 place = lead_ + at;
    return place < landed_ ? ring_[place & (kBytes - 1)] : base_[place];
  }

 private:
  u8* ring_;
  const u8* base_;
  u32 lead_;
  u32 size_;
  u32 end_slot_;
  u32 next_slot_ = 0;
  u32 landed_ = 0;  // bytes from base_
};

// A few sequences between two fetches; fewer when the ring runs dry.
__device__ __forceinline__ Lz4Parser::Step parse_some(const ForwardRing& ring, Lz4Parser& parser,
                                                      Lz4RecordWriter& writer, u32 needed) {
  constexpr u32 kTurns = 4, kReadAhead = 8;
  auto step = Lz4Parser::Step::more;
  for (u32 i = 0; i < kTurns && step == Lz4Parser::Step::more; ++i) {
    if (!ring.has(parser.position(), kReadAhead)) return step;
    if (!parser.in_match()) {
      step = parser.literals(ring, writer.produced());
      if (step == Lz4Parser::Step::fault) return step;
      if (step == Lz4Parser::Step::more && !ring.has(parser.position(), kReadAhead)) return step;
    }
    if (step == Lz4Parser::Step::more) step = parser.match(ring, writer.produced());
    if (step == Lz4Parser::Step::fault || !parser.write(writer)) return Lz4Parser::Step::fault;
    if (writer.produced() >= needed) return Lz4Parser::Step::done;
  }
  return step;
}

template <int kLanes>
__global__ void __launch_bounds__(kWarp) parse_lz4(WaveView wave) {
  __shared__ ForwardRing::Memory rings[kLanes];
  const u32 lane = threadIdx.x, place = blockIdx.x * kLanes + lane;
  const bool mine = lane < kLanes && place < wave.lz4_frames;
  const u32 mask = __ballot_sync(kWholeWarp, mine);
  if (!mine) return;
  const u32 index = wave.lz4_order[place];
  const Frame& frame = wave.frames[index];
  const u32 needed = frame.needed;
  ForwardRing ring(rings[lane].bytes, wave.source + frame.source, frame.source_size);
  Lz4Parser parser(frame.source_size, frame.size);
  Lz4RecordWriter writer(wave.records + frame.records, frame.record_capacity, wave.lz4_runs + frame.first_block);
  auto step = Lz4Parser::Step::more;
  ring.fetch(0);
  do {
    copy_async_wait();
    ring.fetch(parser.position());
    if (step == Lz4Parser::Step::more) step = parse_some(ring, parser, writer, needed);
  } while (__any_sync(mask, step == Lz4Parser::Step::more));
  const bool good = step == Lz4Parser::Step::done;
  if (good) writer.finish();
  wave.lz4_counts[place] = good ? writer.produced() : 0;
  wave.status[index] = static_cast<u32>(good ? Fault::none : Fault::lz4);
}

}  // namespace damacy::gpu
