#include "damacy/wave/direct_writes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "damacy/batch/memory_plan.h"
#include "damacy/core/error.h"
#include "damacy/core/on_failure.h"
#include "damacy/wave/stage_chunk.h"
#include "damacy/zarr/decode_error.h"

namespace damacy {
namespace {

constexpr std::size_t kImage = WaveSizes::kRepairImage;
constexpr std::size_t kFill = WaveSizes::kRepairFill;
static_assert(kFill == 256);  // as images are aligned

std::span<const std::byte> encoded_bytes_of(const Wave& wave, const StagedChunk& chunk) {
  return {reinterpret_cast<const std::byte*>(wave.source_address(chunk.staged_at)), chunk.staged_bytes};
}

}  // namespace

void wait_for_all(Stream& stream) noexcept {
  try {
    stream.record().wait();
  } catch (...) {  // the device is lost: it uses nothing
  }
}

std::uint64_t address_of(const Destination& destination) {
  return reinterpret_cast<std::uint64_t>(destination.memory().data());
}

DirectWrites::DirectWrites(Device& device, Copier& copier, Arena& packed, Arena& decoded)
    : copier_(copier),
      packed_(packed),
      decoded_(decoded),
      stream_(device.make_stream()),
      pinned_(device.pinned_memory(), kImage + kFill),
      device_(device.device_memory(), kImage + kFill) {}

// Waits also if it fails, as fill_part() does: the memory may be used again.
void DirectWrites::copy(std::span<std::byte> to, std::span<const std::byte> from) {
  const Lock lock(mutex_);
  const OnFailure drains([&stream = *stream_] { wait_for_all(stream); });
  stream_->copy(to, from);
  stream_->record().wait();
}

void DirectWrites::place(const PlacementList& all, const Event& first, std::span<const Event> others) {
  const Lock lock(mutex_);
  stream_->wait(first);
  for (const Event& other : others) stream_->wait(other);
  place_now(all);
}

void DirectWrites::place_now(const PlacementList& all) {
  FencedMemory pinned(pinned_.bytes().first(kImage));
  enqueue_in_portions(copier_, *stream_, all, pinned, device_.bytes());
  pinned.ready().wait();
}

void DirectWrites::decode_on_host(Wave& wave, StagedChunk& chunk) {
  const std::uint64_t encoded = chunk.blocks ? chunk.blocks->encoded_size : chunk.staged_bytes;
  const Arena::Piece packed = packed_.take(std::max<std::uint64_t>(encoded, 1), {});
  const Arena::Piece decoded = decoded_.take(chunk.chunks->metadata_of(chunk.chunk).chunk_bytes(), {});
  const auto failure = failure_of([&] { repair(wave, chunk, packed.bytes().first(encoded), decoded.bytes()); });
  if (!failure) return;
  wait();  // before the memory is lent again
  throw *failure;
}

void DirectWrites::repair(Wave& wave, StagedChunk& chunk, std::span<std::byte> encoded, std::span<std::byte> decoded) {
  const ArrayMetadata& metadata = chunk.chunks->metadata_of(chunk.chunk);
  {
    const Lock lock(mutex_);
    stream_->copy(encoded.first(chunk.staged_bytes), encoded_bytes_of(wave, chunk));
    stream_->record().wait();
  }
  const std::vector<ByteRange> needed = chunk.chunks->needed_bytes(chunk.chunk);
  if (chunk.blocks) chunk.blocks->spread(encoded);
  const DecodeResult result =
      chunk.blocks ? metadata.codecs.decode_partial(encoded, chunk.blocks->available(), decoded, needed, context_)
                   : metadata.codecs.decode(encoded, decoded, needed, context_);
  if (!result.ok()) throw decode_error(result);
  PlacementList all;
  ChunkLayout layout;
  layout.chunk_bytes = metadata.chunk_bytes();
  const Lock lock(mutex_);
  for_decoded_parts(chunk, [&](ByteRange range, std::uint64_t at) DAMACY_REQUIRES(mutex_) {
    stream_->copy(wave.slot().destination.bytes().subspan(at, range.size()),
                  decoded.subspan(range.begin, range.size()));
  });
  stream_->record().wait();
  add_decoded_placements(all, wave, chunk, layout);
  all.rebase(address_of(*chunk.share->to));
  place_now(all);
}

void DirectWrites::wait() noexcept {
  const Lock lock(mutex_);
  wait_for_all(*stream_);
}

void DirectWrites::fill_part(BatchJob& job, std::size_t part) {
  const ArrayMetadata& metadata = job.parts()[part].array->metadata();
  const Lock lock(mutex_);
  const OnFailure drains([&stream = *stream_] { wait_for_all(stream); });
  const std::span<std::byte> fill = device_.bytes().subspan(kImage, sizeof metadata.fill);
  std::memcpy(pinned_.data() + kImage, metadata.fill.data(), sizeof metadata.fill);
  for (const Event& last_use : job.claim()) stream_->wait(last_use);
  stream_->copy(fill, pinned_.bytes().subspan(kImage, sizeof metadata.fill));
  stream_->record().wait();
  PlacementList list;
  ChunkLayout layout;
  layout.chunk_bytes = size_of(metadata.dtype);
  job.for_fill(part,
               [&](const BlockCopy& copy) { list.add(copy, reinterpret_cast<std::uint64_t>(fill.data()), 0, layout); });
  list.rebase(address_of(job));
  place_now(list);
}

}  // namespace damacy
