// Launch shapes of a wave's kernels: by how much there is to do, and by what a multiprocessor of this GPU has room for.
// Knows sizes; launches nothing.
#pragma once

#include "damacy/codec/cuda/sequences.cuh"

namespace damacy::gpu {

// What a GPU gives to kernels. The defaults are those of compute capability 9.0.
struct GpuLimits {
  u32 multiprocessors = 132;
  u32 shared_bytes = 228 << 10;            // of a multiprocessor
  u32 shared_bytes_per_block = 227 << 10;  // dynamic and static together
  u32 reserved_bytes = 1 << 10;            // that the driver takes for each block
  u32 blocks = 32;                         // that a multiprocessor runs at once
};

#ifdef __CUDACC__
// Those of the device whose context is current.
inline cudaError_t read_limits(GpuLimits& limits) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  const auto read = [&](u32& into, cudaDeviceAttr which) {
    int value = 0;
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&value, which, device);
    into = static_cast<u32>(value);
  };
  read(limits.multiprocessors, cudaDevAttrMultiProcessorCount);
  read(limits.shared_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  read(limits.shared_bytes_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  read(limits.reserved_bytes, cudaDevAttrReservedSharedMemoryPerBlock);
  read(limits.blocks, cudaDevAttrMaxBlocksPerMultiprocessor);
  return error;
}
#endif

struct StageShapes {
  u32 sequence_lanes;
  u32 zstd_warps;
  u32 lz4_warps;
  bool dense;  // less than 8 bytes a sequence

  static StageShapes choose(const WaveShape& shape, const GpuLimits& limits) {
    StageShapes shapes{};
    shapes.sequence_lanes = lanes_for(shape.sequence_blocks, limits);
    shapes.zstd_warps = warps(shape.zstd_frames, limits.multiprocessors);
    shapes.lz4_warps = warps(shape.lz4_frames, limits.multiprocessors);
    shapes.dense = shape.sequences * 8 > shape.zstd_bytes;
    return shapes;
  }

  // How many warps of `lanes` lanes, each at work on a block's sequences, a multiprocessor holds at once.
  static u32 sequence_warps(u32 lanes, const GpuLimits& limits) {
    const u32 bytes = lanes * static_cast<u32>(sizeof(SequenceMemory) + sizeof(SequenceSlots<1>));
    if (bytes > limits.shared_bytes_per_block) return 0;
    const u32 fit = limits.shared_bytes / (bytes + limits.reserved_bytes);
    return fit < limits.blocks ? fit : limits.blocks;
  }

 private:
  static constexpr u32 kSchedulers = 4;  // of a multiprocessor, since compute capability 5.0
  static constexpr u32 kLaneChoices[7] = {1, 2, 4, 5, 8, 10, 14};

  static u64 rounds(u32 blocks, u64 at_once) { return at_once == 0 ? ~u64{0} : (blocks + at_once - 1) / at_once; }

  // Few blocks: one warp a scheduler, of as few lanes as hold them all at once. Many: the shape that needs the fewest
  // rounds. Of several, the one with most lanes that still has a warp for each scheduler, or else with most warps.
  static u32 lanes_for(u32 blocks, const GpuLimits& limits) {
    u32 best = 1;
    u64 fewest = ~u64{0};
    for (const u32 lanes : kLaneChoices) {
      const u32 warps = sequence_warps(lanes, limits);
      const bool is_full = warps >= kSchedulers;
      if (is_full && blocks <= u64{limits.multiprocessors} * kSchedulers * lanes) return lanes;
      const u64 needed = rounds(blocks, u64{limits.multiprocessors} * warps * lanes);
      if (needed < fewest || (needed == fewest && is_full)) {
        best = lanes;
        fewest = needed;
      }
    }
    return best;
  }
  static u32 warps(u32 frames, u32 multiprocessors) {
    return frames <= multiprocessors * 2 ? 16 : frames <= multiprocessors * 8 ? 8 : 4;
  }
};

}  // namespace damacy::gpu
