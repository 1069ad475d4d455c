#include "damacy/wave/stage_chunk.h"

#include <algorithm>

#include "damacy/core/formatted.h"
#include "damacy/core/prefetch.h"
#include "damacy/plan/destination.h"
#include "damacy/wave/shared_decode.h"

namespace damacy {
namespace {

constexpr std::size_t kNotesAhead = 4;  // chunks whose notes are on their way from memory

// Row-major strides of a copy's elements, in bytes of the source's type.
Dims crop_strides(const BlockCopy& copy) {
  Dims extents;
  for (const CopyAxis& axis : copy.used()) extents.push_back(axis.extent);
  Dims strides = row_major_strides(extents);
  for (auto& stride : strides) stride *= static_cast<std::int64_t>(size_of(copy.op.from));
  return strides;
}

// Fast copies and decoders read words: what is kept lies to them as what was staged does.
constexpr std::uint64_t kWord = 16;
static_assert(kWord - 1 <= ChunkTier::kMostInFront);

FrameSink frames_of(Wave& wave, StagedChunk& chunk) {
  return {*wave.slot().frames, [&wave, &chunk](std::span<const std::uint32_t> own) {
            const Wave::OwnedFrames one{&chunk, own};
            wave.own_frames({&one, 1});
          }};
}

// The source bytes of a copy, from its first to its last.
ByteRange source_of(const BlockCopy& copy) {
  std::int64_t first = copy.src_offset, last = copy.src_offset;
  for (const CopyAxis& axis : copy.used()) {
    const std::int64_t length = (axis.extent - 1) * axis.src_stride;
    (length < 0 ? first : last) += length;
  }
  return {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last) + size_of(copy.op.from)};
}

// Where the chunk's first byte would be if all of it were there.
std::uint64_t address_for(const Wave& wave, const StagedChunk& chunk, const BlockCopy& copy) {
  const std::uint64_t address = wave.destination_address(chunk.decoded_at);
  if (!chunk.blocks) return address;
  const ByteRange used = source_of(copy);
  const auto shift = chunk.blocks->shift_of(used);
  if (!shift)
    throw Error(Status::inval, formatted("bytes {}-{} are not among the needed blocks", used.begin, used.end));
  return address + *shift;
}

bool may_be_kept(const std::shared_ptr<CachedChunks>& cache, std::uint32_t chunk) {
  return cache && cache->may_be_kept(chunk);
}

// Room for a staged chunk, with its note written; empty if there is none.
ChunkTier::Filling room_for(const StagedChunk& chunk, CachedChunks& cache, std::span<const std::byte> note) {
  ChunkTier::Filling room = cache.reserve(chunk.chunk, chunk.staged_at % kWord + chunk.staged_bytes, note.size());
  if (room) std::ranges::copy(note, room.note().begin());
  return room;
}

std::uint64_t address_in(const ChunkTier::Filling& room, const StagedChunk& chunk) {
  return reinterpret_cast<std::uint64_t>(room.bytes().data()) + chunk.staged_at % kWord;
}

void keep_on_device(Wave& wave, StagedChunk& chunk, CachedChunks& cache, std::span<const std::byte> note) {
  ChunkTier::Filling room = room_for(chunk, cache, note);
  if (!room) return;
  wave.to_cache.add(wave.source_address(chunk.staged_at), address_in(room, chunk), chunk.staged_bytes);
  chunk.keep_on_device.emplace(std::move(room));
}

// What fails here is not kept.
void keep_chunk(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed, const EncodedCaches& caches) {
  thread_local std::vector<std::byte> note;
  note.clear();
  const ArrayMetadata& metadata = chunk.chunks->metadata_of(chunk.chunk);
  if (!describe_chunk(metadata.codecs, packed, metadata.chunk_bytes(), *wave.slot().frames, note)) return;
  if (may_be_kept(caches.on_device, chunk.chunk)) keep_on_device(wave, chunk, *caches.on_device, note);
  if (!may_be_kept(caches.on_host, chunk.chunk)) return;
  ChunkTier::Filling room = room_for(chunk, *caches.on_host, note);
  if (!room) return;
  std::ranges::copy(packed, room.bytes().subspan(chunk.staged_at % kWord).begin());
  chunk.keep_on_host.emplace(std::move(room));
}

template <class Stage>
void attempt(StagedChunk& chunk, Stage stage) noexcept {
  if (const auto failure = failure_of(stage)) fail_staged(chunk, *failure);
}

std::vector<ByteRange> needed_of(const StagedChunk& chunk) {
  std::vector<ByteRange> needed = chunk.chunks->needed_bytes(chunk.chunk);
  return chunk.decode ? chunk.decode->begin(std::move(needed)) : needed;
}

// Those that share its decode are placed from there, too.
void pass_on(const StagedChunk& chunk, const StagedFrames& found) noexcept {
  if (chunk.decode && !chunk.failed) chunk.decode->described(chunk.redo ? nullptr : &found);
}

}  // namespace

void add_placements_of(Wave& wave, StagedChunk& chunk, const StagedFrames& found, PlacementList& list) {
  if (found.in_source)
    add_placements(list, chunk, WantedChunks::From::chunk, wave.source_address(*found.in_source), found.layout);
  else
    add_decoded_placements(list, wave, chunk, found.layout);
}

void stage_chunk(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed,
                 const EncodedCaches& caches) noexcept {
  StagedFrames found;
  attempt(chunk, [&] {
    const ArrayMetadata& metadata = chunk.chunks->metadata_of(chunk.chunk);
    const StagedBytes bytes{packed, chunk.staged_at, chunk.decoded_at, metadata.chunk_bytes(), needed_of(chunk)};
    const DecodeResult result = stage_frames(metadata.codecs, bytes, frames_of(wave, chunk), found);
    chunk.redo = !result.ok() || found.host;
    if (!chunk.redo) add_placements_of(wave, chunk, found, chunk.share->placements);
  });
  pass_on(chunk, found);
  if (chunk.redo || chunk.failed) return;
  if (!may_be_kept(caches.on_device, chunk.chunk) && !may_be_kept(caches.on_host, chunk.chunk)) return;
  static_cast<void>(failure_of([&] { keep_chunk(wave, chunk, packed, caches); }));
}

bool stage_blocks(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed) noexcept {
  StagedFrames found;
  attempt(chunk, [&] {
    const ArrayMetadata& metadata = chunk.chunks->metadata_of(chunk.chunk);
    const StagedBytes bytes{packed,
                            chunk.staged_at,
                            chunk.decoded_at,
                            static_cast<std::uint64_t>(metadata.chunk_bytes()),
                            chunk.chunks->needed_bytes(chunk.chunk),
                            chunk.blocks.get()};
    const DecodeResult result = stage_frames(metadata.codecs, bytes, frames_of(wave, chunk), found);
    if (!found.all) return;
    chunk.redo = !result.ok() || found.host;
    if (!chunk.redo) add_placements_of(wave, chunk, found, chunk.share->placements);
  });
  return found.all || chunk.failed;
}

void for_decoded_parts(const StagedChunk& chunk, const std::function<void(ByteRange, std::uint64_t)>& visit) {
  if (!chunk.blocks) return visit({0, chunk.decoded_bytes()}, chunk.decoded_at);
  for (const NeededBlocks::Part& part : chunk.blocks->decoded) visit(part.range, chunk.decoded_at + part.at);
}

void stage_kept_chunks(Wave& wave, std::span<StagedChunk* const> chunks, const EncodedCaches& caches) noexcept {
  struct Found {
    StagedFrames frames;
    std::size_t first, count;  // of the frames of all
  };
  const auto failure = failure_of([&] {
    thread_local std::vector<FrameList::DescribedFrame> frames;
    thread_local std::vector<std::uint32_t> indices;
    thread_local std::vector<Found> all;
    thread_local std::vector<Wave::OwnedFrames> owned;
    frames.clear();
    all.clear();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (i + kNotesAhead < chunks.size()) prefetch_for_reading(chunks[i + kNotesAhead]->kept->note().data());
      StagedChunk* const chunk = chunks[i];
      const std::vector<ByteRange> needed = needed_of(*chunk);
      const std::size_t first = frames.size();
      const StagedFrames found =
          find_described(chunk->kept->note(), chunk->staged_at, chunk->decoded_at, needed, frames);
      all.push_back({found, first, frames.size() - first});
    }
    indices.resize(frames.size());
    wave.slot().frames->add_described(frames, indices);
    owned.clear();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const auto own = std::span<const std::uint32_t>(indices).subspan(all[i].first, all[i].count);
      owned.push_back({chunks[i], own});
      chunks[i]->redo = std::ranges::find(own, FrameList::kHost) != own.end();
    }
    wave.own_frames(owned);
    PlacementList placements;
    placements.reserve(2 * chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i)
      if (!chunks[i]->redo) add_placements_of(wave, *chunks[i], all[i].frames, placements);
    chunks.front()->share->placements.add(placements);
    for (std::size_t i = 0; i < chunks.size(); ++i) pass_on(*chunks[i], all[i].frames);
  });
  for (StagedChunk* const chunk : chunks) {
    if (failure) attempt(*chunk, [&] { throw *failure; });
    if (chunk->redo || chunk->failed || !may_be_kept(caches.on_device, chunk->chunk)) continue;
    static_cast<void>(failure_of([&] { keep_on_device(wave, *chunk, *caches.on_device, chunk->kept->note()); }));
  }
}

void add_placements(PlacementList& list, StagedChunk& chunk, WantedChunks::From from, std::uint64_t address,
                    const ChunkLayout& layout) {
  chunk.placed.clear();
  chunk.chunks->for_uses(chunk.chunk, from, [&](const Use& use) {
    list.add(use.copy, address, 0, layout);
    chunk.placed.add(use.part, use.elements());
  });
}

void add_decoded_placements(PlacementList& list, const Wave& wave, StagedChunk& chunk, const ChunkLayout& layout) {
  chunk.placed.clear();
  chunk.chunks->for_uses(chunk.chunk, WantedChunks::From::chunk, [&](const Use& use) {
    list.add(use.copy, address_for(wave, chunk, use.copy), 0, layout);
    chunk.placed.add(use.part, use.elements());
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
