// The layout of a wave's uploaded image and of its scratch. Pure arithmetic on a WaveShape, shared by the code that
// sizes, writes and reads them.
#pragma once

#include "damacy/codec/gpu_decoder.h"
#include "damacy/codec/gpu_zstd/huffman.h"

namespace damacy::gpu {

// The table that the Huffman kernel writes for the literal kernel: the first entry of every symbol.
struct HuffmanTable {
  u16 first[256];
  u8 weight[256];
  u32 symbols;
  u32 bits;
  u32 stored;
  u32 reserved;
};

inline constexpr u32 kLiteralClasses = 3;  // tables of at most 9, 10 and 11 bits

class Placer {
 public:
  static constexpr u64 kAlignment = 256;

  explicit Placer(u64 alignment = kAlignment) : alignment_(alignment) {}

  template <class T>
  u64 place(u64 count) {
    const u64 begin = end();
    end_ = begin + count * sizeof(T);
    return begin;
  }
  u64 end() const { return (end_ + alignment_ - 1) & ~(alignment_ - 1); }

 private:
  u64 alignment_;
  u64 end_ = 0;
};

// Offsets in bytes.
struct ImageLayout {
  u64 frames, segments, blocks, sequence_order, literal_order, zstd_order, lz4_order, total;

  explicit ImageLayout(const WaveShape& shape, u64 alignment = Placer::kAlignment) {
    Placer placer(alignment);
    frames = placer.place<Frame>(shape.frames);
    segments = placer.place<Segment>(shape.segments);
    blocks = placer.place<Block>(shape.blocks);
    sequence_order = placer.place<u32>(shape.sequence_blocks);
    literal_order = placer.place<u32>(shape.literal_blocks);
    zstd_order = placer.place<u32>(shape.zstd_frames);
    lz4_order = placer.place<u32>(shape.lz4_frames);
    total = placer.end();
  }

  // At most so many bytes are lost to alignment by all parts and the status words after them.
  static constexpr u64 kPadding = 8 * Placer::kAlignment;
};

struct ScratchLayout {
  // The parts that must be zero when a wave begins come first.
  u64 literal_counts, literal_faults, segment_ranges, zeroed;
  u64 sequence_results, huffman_tables, literal_lists, lz4_runs, lz4_counts, records, literals, total;

  explicit ScratchLayout(const WaveShape& shape, u64 alignment = Placer::kAlignment) {
    Placer placer(alignment);
    literal_counts = placer.place<u32>(kLiteralClasses);
    literal_faults = placer.place<u32>(shape.blocks);
    segment_ranges = placer.place<SegmentRange>(shape.segments);
    zeroed = placer.end();
    sequence_results = placer.place<SequenceResult>(shape.blocks);
    huffman_tables = placer.place<HuffmanTable>(shape.literal_blocks);
    literal_lists = placer.place<u32>(u64{kLiteralClasses} * shape.literal_blocks);
    lz4_runs = placer.place<Lz4Run>(shape.lz4_runs);
    lz4_counts = placer.place<u32>(shape.lz4_frames);
    records = placer.place<u64>(shape.records + kAside);
    literals = placer.place<u8>(shape.literal_bytes);
    total = placer.end();
  }

  // At most so many bytes are lost to alignment by all parts together.
  static constexpr u64 kPadding = 11 * Placer::kAlignment;

  static constexpr u64 kAside = 8;  // for records that finished lanes write and no lane reads
};

}  // namespace damacy::gpu
