// The parts of scan_frame: one codec each, and the header of a compressed block's two sections.
// Knows headers only; entropy-coded bytes are never looked at.
#pragma once

#include <cstddef>
#include <span>

#include "damacy/codec/gpu_decoder.h"

namespace damacy::gpu {

// Every one fills scan.frame, and appends to the rest of `scan`, which is clear.
[[nodiscard]] DecodeResult scan_raw(const GpuFrame& frame, FrameScan& scan);
[[nodiscard]] DecodeResult scan_zstd(std::span<const std::byte> bytes, const GpuFrame& frame, FrameScan& scan);
[[nodiscard]] DecodeResult scan_lz4(std::span<const std::byte> bytes, const GpuFrame& frame, FrameScan& scan);

// The blocks of this segment so far that later ones may take tables from.
struct TableSources {
  u32 huffman = kNone;
  u32 tables[3] = {kNone, kNone, kNone};
};

// Headers of the literals and sequences sections of the compressed block `bytes`; `index` is the block's own.
// `limit`: bytes it may produce at most. False: they look wrong, and the host decides.
[[nodiscard]] bool scan_compressed_block(std::span<const std::byte> bytes, u32 index, u32 limit, TableSources& sources,
                                         Block& block);

// How far LZ4 records go: a record a sequence, and one more for each border of a run that a sequence crosses.
[[nodiscard]] inline u64 lz4_record_bound(u64 source_size, u64 size) {
  const u64 sequences = source_size / 3 < size / 4 ? source_size / 3 : size / 4;
  return sequences + 2 * (size / kLz4Block + 1) + 2;
}
[[nodiscard]] inline u64 lz4_run_count(u64 size) {
  return (size + kLz4Block - 1) / kLz4Block + 1;
}

}  // namespace damacy::gpu
