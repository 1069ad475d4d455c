// Execution of whole frames, one thread block each: their blocks or runs in order, sizes and ends checked, a verdict
// written.
#pragma once

#include "damacy/codec/cuda/executor.cuh"
#include "damacy/codec/cuda/wave_view.cuh"

namespace damacy::gpu {

// Occupancy that the windows were measured with: 40 warps a multiprocessor for dense sequences, 32 for sparse ones.
template <int kWarps, int kRows>
constexpr int blocks_a_multiprocessor() {
  return (kRows == 6 ? 40 : 32) / kWarps;
}

__device__ __forceinline__ u32 smaller(u32 a, u32 b) {
  return a < b ? a : b;
}

// Where a thread block stands in a zstd frame. Every thread has the same.
template <int kWarps, int kRows>
class ZstdFrameRunner {
 public:
  using Memory = ExecutorMemory<kWarps, kRows>;
  __device__ __forceinline__ ZstdFrameRunner(const WaveView& wave, const Frame& frame, Memory& memory,
                                             RepeatOffsets& history)
      : wave_(wave), frame_(frame), history_(history), executor_(memory, wave.destination + frame.destination) {}

  __device__ __forceinline__ Fault run() {
    for (u32 i = 0; i < frame_.block_count && !satisfied(); ++i) {
      const Fault fault = run_block(frame_.first_block + i);
      if (fault != Fault::none) return fault;
    }
    if (satisfied()) return Fault::none;
    if (frame_.cut != 0) return Fault::ask_host;
    return position_ == frame_.size ? Fault::none : Fault::size;
  }

 private:
  __device__ __forceinline__ bool satisfied() const {
    return frame_.needed < frame_.size && position_ >= frame_.needed;
  }

  __device__ __forceinline__ Fault run_block(u32 index) {
    const Block& block = wave_.blocks[index];
    if (block.has(Block::kFirst)) {
      if (threadIdx.x == 0) history_ = RepeatOffsets::initial();
      segment_begin_ = position_;
      __syncthreads();
    }
    const Fault fault = block.type == BlockType::compressed ? run_compressed(block, index) : run_plain(block);
    if (fault != Fault::none || !block.has(Block::kLast)) return fault;
    return end_segment();
  }

  __device__ __forceinline__ Fault run_plain(const Block& block) {
    if (block.produced > frame_.size - position_) return Fault::size;
    if (block.produced != 0)
      executor_.copy(position_, wave_.source + block.source, block.produced, block.type == BlockType::rle);
    position_ += block.produced;
    return Fault::none;
  }

  __device__ __forceinline__ Fault run_compressed(const Block& block, u32 index) {
    SequenceResult result{Fault::none, 0, 0, {0, 0, 0}};
    if (block.sequence_count != 0) result = wave_.sequence_results[index];
    if (result.fault != Fault::none) return result.fault;
    if (wave_.literal_faults[index] != 0) return static_cast<Fault>(wave_.literal_faults[index]);
    const u32 size = result.output_end + (block.literal_size - result.literal_end);
    if (size > frame_.size - position_) return Fault::size;
    const bool in_place = block.literal_type == LiteralType::raw;
    const u8* literals =
        in_place ? wave_.source + block.source + block.literal_offset : wave_.literals + block.literals;
    const ZstdRun run{wave_.records + block.records,
                      block.sequence_count,
                      size,
                      block.literal_size,
                      position_ - segment_begin_,
                      &history_};
    if (!executor_.run(run, literals, position_, smaller(size, frame_.needed - position_))) return Fault::offset;
    position_ += size;
    if (block.sequence_count != 0) put_history(wave_.sequence_results[index]);
    return Fault::none;
  }

  __device__ __forceinline__ void put_history(const SequenceResult& result) {
    if (threadIdx.x == 0) {
      const RepeatOffsets before = history_;
      for (int i = 0; i < 3; ++i) history_.value[i] = before.resolve(result.repeats[i]);
    }
    __syncthreads();
  }

  // Its declared size must be what it gave; a checksum waits for the bytes.
  __device__ __forceinline__ Fault end_segment() {
    const u32 index = frame_.first_segment + segment_++;
    const Segment& segment = wave_.segments[index];
    if (segment.content_size != kUnknownSize && segment.content_size != position_ - segment_begin_) return Fault::size;
    if (segment.has_checksum != 0 && threadIdx.x == 0) wave_.segment_ranges[index] = {segment_begin_, position_, 1, 0};
    return Fault::none;
  }

  const WaveView& wave_;
  const Frame& frame_;
  RepeatOffsets& history_;  // in shared memory; the first thread writes it
  Executor<kWarps, kRows> executor_;
  u32 position_ = 0;
  u32 segment_begin_ = 0;
  u32 segment_ = 0;
};

template <int kWarps, int kRows>
__global__ void __launch_bounds__(kWarp* kWarps, blocks_a_multiprocessor<kWarps, kRows>()) execute_zstd(WaveView wave) {
  __shared__ ExecutorMemory<kWarps, kRows> memory;
  __shared__ RepeatOffsets history;
  const u32 index = wave.zstd_order[blockIdx.x];
  const Frame& frame = wave.frames[index];
  const Fault fault = ZstdFrameRunner<kWarps, kRows>(wave, frame, memory, history).run();
  if (threadIdx.x == 0) wave.status[index] = static_cast<u32>(fault);
}

// A frame whose parser failed has a verdict already, and a count of 0.
template <int kWarps, int kRows>
__global__ void __launch_bounds__(kWarp* kWarps, blocks_a_multiprocessor<kWarps, kRows>()) execute_lz4(WaveView wave) {
  __shared__ ExecutorMemory<kWarps, kRows> memory;
  const Frame& frame = wave.frames[wave.lz4_order[blockIdx.x]];
  const u32 produced = wave.lz4_counts[blockIdx.x];
  const Lz4Run* runs = wave.lz4_runs + frame.first_block;
  Executor<kWarps, kRows> executor(memory, wave.destination + frame.destination);
  for (u32 position = 0; position < produced; position += kLz4Block) {
    const Lz4Run run = runs[position / kLz4Block];
    const u32 behind = runs[position / kLz4Block + 1].first_record;
    const Lz4RunView view{wave.records + frame.records + run.first_record, behind - run.first_record,
                          smaller(kLz4Block, produced - position), run.literal_base};
    executor.run(view, wave.source + frame.source + run.literal_base, position, view.size);
  }
}

}  // namespace damacy::gpu
