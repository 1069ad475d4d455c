#include "damacy/wave/stage_chunk.h"

#include "damacy/zarr/box_copy.h"

namespace damacy {
namespace {

// Row-major strides of a copy's elements, in bytes of the source's type.
Dims crop_strides(const BlockCopy& copy) {
  Dims extents;
  for (const CopyAxis& axis : copy.used()) extents.push_back(axis.extent);
  Dims strides = row_major_strides(extents);
  for (auto& stride : strides) stride *= static_cast<std::int64_t>(size_of(copy.op.from));
  return strides;
}

}  // namespace

void stage_chunk(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed) noexcept {
  const auto failure = failure_of([&] {
    const ArrayMetadata& metadata = chunk.chunks->metadata_of(chunk.chunk);
    const StagedBytes bytes{packed, chunk.staged_at, chunk.decoded_at, metadata.chunk_bytes(),
                            chunk.chunks->needed_bytes(chunk.chunk)};
    const FrameSink sink{*wave.slot().frames, [&](std::span<const std::uint32_t> own) {
                           wave.own_frames(own, chunk, metadata.chunk_bytes());
                         }};
    StagedFrames found;
    const DecodeResult result = stage_frames(metadata.codecs, bytes, sink, found);
    if (!result.ok() || found.host) {
      chunk.redo = true;
      return;
    }
    const std::uint64_t address =
        found.in_source ? wave.source_address(*found.in_source) : wave.destination_address(chunk.decoded_at);
    add_placements(chunk.share->placements, chunk, WantedChunks::From::chunk, address, found.layout);
  });
  if (!failure) return;
  chunk.failed = true;
  chunk.chunks->fail_chunk(chunk.chunk, *failure);
}

void add_placements(PlacementList& list, StagedChunk& chunk, WantedChunks::From from, std::uint64_t address,
                    const ChunkLayout& layout) {
  chunk.placed.clear();
  chunk.chunks->for_uses(chunk.chunk, from, [&](const Use& use) {
    list.add(use.copy, address, 0, layout);
    chunk.count(use.part, use.elements());
  });
}

BlockCopy crop_of(const BlockCopy& copy) {
  BlockCopy crop = copy;
  const Dtype bits = type_of_bits(copy.op.from);
  crop.op = {bits, bits, false};
  crop.dst_offset = 0;
  const Dims strides = crop_strides(copy);
  for (std::size_t i = 0; i < strides.size(); ++i) crop.axes[i].dst_stride = strides[i];
  normalise(crop);
  return crop;
}

std::uint64_t bytes_of_crop(const BlockCopy& copy) noexcept {
  std::uint64_t bytes = size_of(copy.op.from);
  for (const CopyAxis& axis : copy.used()) bytes *= static_cast<std::uint64_t>(axis.extent);
  return bytes;
}

void add_crop(PlacementList& list, const BlockCopy& copy, std::uint64_t address) {
  BlockCopy placed = copy;
  placed.src_offset = 0;
  const Dims strides = crop_strides(copy);
  for (std::size_t i = 0; i < strides.size(); ++i) placed.axes[i].src_stride = strides[i];
  normalise(placed);
  ChunkLayout layout;
  layout.chunk_bytes = bytes_of_crop(copy);
  list.add(placed, address, 0, layout);
}

}  // namespace damacy
