// Prepares a chunk for decoding on a device: checks it, finds its frames, and adds its placements. Runs on the reader.
// Knows codecs and placements; not threads or streams.
#pragma once

#include <cstddef>
#include <span>

#include "damacy/codec/chain.h"
#include "damacy/wave/stage_frames.h"
#include "damacy/wave/wave.h"

namespace damacy {

// `packed` are the chunk's encoded bytes, at offset staged_at. Adds frames and placements to the wave; reports a
// failure to the chunk's rows.
void stage_chunk(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed) noexcept;

// Placements into rows of a batch whose address is not known yet: they count from its first byte.
// Adds the placements of a chunk that is decoded at `address`.
void add_placements(PlacementList& list, const StagedChunk& chunk, std::uint64_t address, const ChunkLayout& layout);
// Elements of `part`, wanted by `row`, that lie at `address` by themselves, row-major.
void add_crop(PlacementList& list, const StagedChunk& chunk, std::uint32_t row, const Box& part, std::uint64_t address);
// `part`, relative to the row's own box, becomes the fill element that lies at `address`.
void add_fill(PlacementList& list, const BatchJob& job, std::uint32_t row, const Box& part, std::uint64_t address);

}  // namespace damacy
