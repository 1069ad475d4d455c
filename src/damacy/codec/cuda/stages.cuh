// Which kernels a wave takes, and in what order. The launcher knows how: on CUDA streams, or on the
// host.
#pragma once

#include "damacy/codec/cuda/checksum.cuh"
#include "damacy/codec/cuda/execute.cuh"
#include "damacy/codec/cuda/literals.cuh"
#include "damacy/codec/cuda/lz4.cuh"
#include "damacy/codec/cuda/sequences.cuh"
#include "damacy/codec/cuda/stage_shapes.h"

namespace damacy::gpu {

inline u32 groups_of(u32 count, u32 each) {
  return (count + each - 1) / each;
}

// Lanes of work: what is on different tracks may run side by side.
enum class Track : int { main, small_tables, medium_tables, large_tables, lz4 };
inline constexpr int kTracks = 5;

struct KernelShape {
  u32 blocks = 1;
  u32 threads = kWarp;
  std::size_t shared_bytes = 0;
  // Most of the cache stays cache; else it is shared memory. Kernels that differ in this do not share a multiprocessor.
  bool wants_cache = false;
};

template <class Launcher>
class Stages {
 public:
  Stages(Launcher& launcher, const WaveView& wave, const WaveShape& shape, const StageShapes& shapes)
      : launcher_(launcher), wave_(wave), shape_(shape), shapes_(shapes) {}

  // Sequences first: they take longest, and spread over all multiprocessors only when those are empty.
  void run() {
    launcher_.zero(Track::main, wave_.literal_counts, ScratchLayout(shape_).zeroed);
    if (shape_.lz4_frames != 0) launcher_.join(Track::lz4, Track::main);
    if (shape_.literal_blocks != 0) launcher_.join(Track::large_tables, Track::main);
    if (shape_.sequence_blocks != 0) sequences();
    if (shape_.literal_blocks != 0) literals();
    if (shape_.lz4_frames != 0) lz4();
    if (shape_.literal_blocks != 0) {
      launcher_.join(Track::main, Track::small_tables);
      launcher_.join(Track::main, Track::medium_tables);
      launcher_.join(Track::main, Track::large_tables);
    }
    if (shape_.zstd_frames != 0) execute();
    if (shape_.checksums != 0)
      launcher_.launch(Track::main, verify_checksums, {groups_of(shape_.segments, kSegmentsPerWarp)}, wave_);
    if (shape_.lz4_frames != 0) launcher_.join(Track::main, Track::lz4);
  }

 private:
  template <int kLanes>
  void sequences_of() {
    launcher_.launch(Track::main, decode_sequences<kLanes>,
                     {groups_of(shape_.sequence_blocks, kLanes), kWarp, kLanes * sizeof(SequenceMemory)}, wave_);
  }
  void sequences() {
    switch (shapes_.sequence_lanes) {
      case 1:
        return sequences_of<1>();
      case 2:
        return sequences_of<2>();
      case 4:
        return sequences_of<4>();
      case 5:
        return sequences_of<5>();
      case 8:
        return sequences_of<8>();
      case 14:
        return sequences_of<14>();
      default:
        return sequences_of<10>();
    }
  }

  template <int kBits>
  void literals_of(Track track) {
    launcher_.launch(
        track, decode_literals<kBits>,
        {groups_of(shape_.literal_blocks, kBlocksPerWarp), kWarp, kBlocksPerWarp * sizeof(LiteralMemory<kBits>)},
        wave_);
  }
  void literals() {
    launcher_.launch(Track::large_tables, describe_trees, {groups_of(shape_.literal_blocks, kTreesPerWarp)}, wave_);
    launcher_.join(Track::medium_tables, Track::large_tables);
    launcher_.join(Track::small_tables, Track::large_tables);
    literals_of<11>(Track::large_tables);
    literals_of<10>(Track::medium_tables);
    literals_of<9>(Track::small_tables);
  }

  template <int kWarps, int kRows>
  void execute_of() {
    launcher_.launch(Track::main, execute_zstd<kWarps, kRows>, {shape_.zstd_frames, kWarps * kWarp, 0, true}, wave_);
  }
  template <int kRows>
  void execute_rows() {
    if (shapes_.zstd_warps == 16) return execute_of<16, kRows>();
    return shapes_.zstd_warps == 8 ? execute_of<8, kRows>() : execute_of<4, kRows>();
  }
  void execute() { return shapes_.dense ? execute_rows<6>() : execute_rows<8>(); }

  template <int kWarps>
  void execute_lz4_of() {
    launcher_.launch(Track::lz4, execute_lz4<kWarps, 8>, {shape_.lz4_frames, kWarps * kWarp, 0, true}, wave_);
  }
  void lz4() {
    launcher_.launch(Track::lz4, parse_lz4, {shape_.lz4_frames}, wave_);
    if (shapes_.lz4_warps == 16) return execute_lz4_of<16>();
    return shapes_.lz4_warps == 8 ? execute_lz4_of<8>() : execute_lz4_of<4>();
  }

  Launcher& launcher_;
  WaveView wave_;
  WaveShape shape_;
  StageShapes shapes_;
};

}  // namespace damacy::gpu
