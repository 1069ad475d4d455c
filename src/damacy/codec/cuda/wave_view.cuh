// What every kernel gets: the wave's image, scratch and buffers as device pointers.
#pragma once

#include "damacy/codec/gpu_zstd/wave_layout.h"

namespace damacy::gpu {

struct WaveView {
  const u8* source;
  u8* destination;
  u32* status;  // one Fault a frame

  const Frame* frames;
  const Segment* segments;
  const Block* blocks;
  const u32* sequence_order;
  const u32* literal_order;
  const u32* zstd_order;
  const u32* lz4_order;
  u32 segment_count;
  u32 sequence_blocks;
  u32 literal_blocks;
  u32 zstd_frames;
  u32 lz4_frames;

  u32* literal_counts;
  u32* literal_faults;  // one Fault a block
  SegmentRange* segment_ranges;
  SequenceResult* sequence_results;
  HuffmanTable* huffman_tables;
  u32* literal_lists;
  Lz4Run* lz4_runs;
  u32* lz4_counts;  // bytes that the records of an LZ4 frame produce; 0 when it failed
  u64* records;
  u64* aside;  // records that finished lanes write and that are not read
  u8* literals;
};

inline WaveView view_of(const WaveShape& shape, const WaveBuffers& buffers) {
  const ImageLayout image(shape);
  const ScratchLayout scratch(shape);
  const auto in = [&]<class T>(T*& pointer, u64 base, u64 offset) { pointer = reinterpret_cast<T*>(base + offset); };
  WaveView view{};
  in(view.source, buffers.source, 0);
  in(view.destination, buffers.destination, 0);
  in(view.status, buffers.status, 0);
  in(view.frames, buffers.descriptors, image.frames);
  in(view.segments, buffers.descriptors, image.segments);
  in(view.blocks, buffers.descriptors, image.blocks);
  in(view.sequence_order, buffers.descriptors, image.sequence_order);
  in(view.literal_order, buffers.descriptors, image.literal_order);
  in(view.zstd_order, buffers.descriptors, image.zstd_order);
  in(view.lz4_order, buffers.descriptors, image.lz4_order);
  view.segment_count = shape.segments;
  view.sequence_blocks = shape.sequence_blocks;
  view.literal_blocks = shape.literal_blocks;
  view.zstd_frames = shape.zstd_frames;
  view.lz4_frames = shape.lz4_frames;
  in(view.literal_counts, buffers.scratch, scratch.literal_counts);
  in(view.literal_faults, buffers.scratch, scratch.literal_faults);
  in(view.segment_ranges, buffers.scratch, scratch.segment_ranges);
  in(view.sequence_results, buffers.scratch, scratch.sequence_results);
  in(view.huffman_tables, buffers.scratch, scratch.huffman_tables);
  in(view.literal_lists, buffers.scratch, scratch.literal_lists);
  in(view.lz4_runs, buffers.scratch, scratch.lz4_runs);
  in(view.lz4_counts, buffers.scratch, scratch.lz4_counts);
  in(view.records, buffers.scratch, scratch.records);
  view.aside = view.records + shape.records;
  in(view.literals, buffers.scratch, scratch.literals);
  return view;
}

}  // namespace damacy::gpu
