// Prepares a chunk for decoding on a device: checks it, finds its frames, and adds its placements. Runs on the reader.
// Knows codecs and placements; not threads or streams.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "damacy/codec/chain.h"
#include "damacy/fetch/cached_chunks.h"
#include "damacy/wave/stage_frames.h"
#include "damacy/wave/wave.h"

namespace damacy {

// Where encoded chunks of a job are kept; null: nowhere.
struct EncodedCaches {
  std::shared_ptr<CachedChunks> on_device, on_host;
};

// Adds the placements of a chunk whose frames were found, in that wave.
void add_placements_of(Wave& wave, StagedChunk& chunk, const StagedFrames& found, PlacementList& list);

// `packed` are the chunk's encoded bytes, at offset staged_at. Adds frames and placements to the wave; reports a
// failure to the chunk's job.
void stage_chunk(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed,
                 const EncodedCaches& caches) noexcept;
// The same for chunks of one job that are kept. All are added at once: readers that add one chunk after the other spend
// more time on each other.
void stage_kept_chunks(Wave& wave, std::span<StagedChunk* const> chunks, const EncodedCaches& caches) noexcept;

// The same for a chunk with `blocks`, whose staged bytes are `packed`. False: they are too few or damaged; nothing was
// added.
[[nodiscard]] bool stage_blocks(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed) noexcept;
// Calls visit(range of the decoded chunk, where it goes in the wave's destination).
void for_decoded_parts(const StagedChunk& chunk, const std::function<void(ByteRange, std::uint64_t)>& visit);

// Placements into a destination whose address is not known yet: they count from its first byte.
// Adds those of a chunk that is decoded, or of a fill element that lies, at `address`. Counts their elements in
// `chunk`.
void add_placements(PlacementList& list, StagedChunk& chunk, WantedChunks::From from, std::uint64_t address,
                    const ChunkLayout& layout);
// The same of a chunk whose decoded parts are in the wave's destination.
void add_decoded_placements(PlacementList& list, const Wave& wave, StagedChunk& chunk, const ChunkLayout& layout);
// What a crop copies of a decoded chunk, to memory of its own, row-major, bit by bit.
[[nodiscard]] BlockCopy crop_of(const BlockCopy& copy);
[[nodiscard]] std::uint64_t bytes_of_crop(const BlockCopy& copy) noexcept;
// Adds the placement of the crop, which lies at `address`.
void add_crop(PlacementList& list, const BlockCopy& copy, std::uint64_t address);

}  // namespace damacy
