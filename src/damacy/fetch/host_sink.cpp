#include "damacy/fetch/host_sink.h"

#include <algorithm>
#include <optional>

#include "damacy/copy/block_copy.h"
#include "damacy/zarr/decode_error.h"

namespace damacy {
namespace {

using From = WantedChunks::From;
using Decode = WantedChunks::Decode;

// Returns the elements copied.
std::int64_t copy_uses(const WantedChunks& chunks, std::size_t chunk, From from, std::span<const std::byte> elements) {
  Destination& to = chunks.destination();
  std::int64_t copied = 0;
  chunks.for_uses(chunk, from, [&](const Use& use) {
    run_block_copy(use.copy, elements, to.memory());
    to.placed(use.part, use.elements());
    copied += use.elements();
  });
  return copied;
}

void place_one(WantedChunks& chunks, std::size_t chunk, std::span<const std::byte> decoded, Decode how) {
  const Stopwatch watch;
  const std::int64_t elements = copy_uses(chunks, chunk, From::chunk, decoded);
  chunks.count_placed(watch.elapsed(), chunk, elements, how);
}

bool has_all(std::span<const ByteRange> available, const std::vector<ByteRange>& needed) {
  return std::ranges::all_of(needed, [&](const ByteRange& range) { return covers(available, range.begin, range.end); });
}

// Places all uses of several chunks in the order of the destination. Throws before anything is counted.
void place_together(WantedChunks& chunks, std::span<const HostSink::Decoded> decoded, Decode how) {
  const Stopwatch watch;
  Destination& to = chunks.destination();
  struct Placed {
    std::uint32_t part;
    std::int64_t elements;
  };
  std::vector<SourcedCopy> copies;
  std::vector<Placed> placed;
  std::vector<std::int64_t> elements(decoded.size(), 0);
  for (std::size_t i = 0; i < decoded.size(); ++i)
    chunks.for_uses(decoded[i].chunk, From::chunk, [&](const Use& use) {
      copies.push_back({use.copy, decoded[i].bytes});
      placed.push_back({use.part, use.elements()});
      elements[i] += use.elements();
    });
  std::ranges::sort(copies, {}, [](const SourcedCopy& each) { return each.copy.dst_offset; });
  run_block_copies(copies, to.memory());
  for (const Placed& each : placed) to.placed(each.part, each.elements);
  for (std::size_t i = 0; i < decoded.size(); ++i)
    chunks.count_placed(i == 0 ? watch.elapsed() : StatsBoard::Span{}, decoded[i].chunk, elements[i], how);
}

}  // namespace

bool decode_on_host(WantedChunks& chunks, const ReadChunk& read, const DecodeMemory& memory,
                    const std::function<std::vector<ByteRange>()>& needed,
                    const std::function<void(std::span<const std::byte>)>& pass) {
  chunks.check_wanted();
  const ArrayMetadata& metadata = chunks.metadata_of(read.chunk);
  if (metadata.codecs.is_raw()) {
    if (!read.available.empty() && !has_all(read.available, needed())) return false;
    chunks.count_decode({}, read.packed.size(), read.packed.size());
    pass(read.packed);
    return true;
  }
  const Arena::Piece scratch = memory.scratch.take(metadata.chunk_bytes(), read.stop);
  const DecodeResult result = decode_chunk(chunks, read.chunk, read.packed, read.available, needed(), scratch.bytes(),
                                           memory.contexts[read.thread]);
  if (result.status == DecodeStatus::need_more && !read.available.empty()) return false;
  if (!result.ok()) throw decode_error(result);
  pass(scratch.bytes());
  return true;
}

HostSink::HostSink(std::shared_ptr<WantedChunks> chunks, DecodeMemory memory, HostTiers tiers)
    : chunks_(std::move(chunks)),
      memory_(std::move(memory)),
      tiers_(std::move(tiers)),
      decoded_(*chunks_, tiers_.decoded),
      encoded_(*chunks_, tiers_.encoded, CachedChunks::Form::encoded) {}

// False: `available` is too little, or the bytes are not intact.
bool HostSink::decode_and_place(const ReadChunk& read, std::span<const ChunkConsumer> joined,
                                const IsIntact& is_intact) {
  if (read.available.empty() && keep_and_place(read, joined, is_intact)) return true;
  bool was_intact = true;
  const bool was_enough = decode_on_host(
      *chunks_, read, memory_, [&] { return needed_by(read.chunk, joined); },
      [&](std::span<const std::byte> decoded) {
        was_intact = is_intact();
        if (was_intact) place(read.chunk, joined, decoded);
      });
  return was_enough && was_intact;
}

bool HostSink::take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
                    std::span<const ByteRange> available, std::stop_token stop) {
  std::vector<ChunkConsumer> joined = joined_to(chunk);
  try {
    const bool is_done = decode_and_place({thread, chunk, packed, available, stop}, joined, [] { return true; });
    if (is_done && available.empty()) static_cast<void>(failure_of([&] { keep_encoded(chunk, packed); }));
    return is_done;
  } catch (...) {
    const Error why = current_error();
    const bool is_damage = why.status() == Status::decode && available.empty();
    if (!is_damage || !read_again({thread, chunk, packed, {}, std::move(stop)}, joined)) fail(chunk, joined, why);
    return true;
  }
}

// Of a chunk that does not decode: a cache may have damaged bytes of it, which the store has not. False: none has, or
// the store's bytes do not decode either. Those who joined are not held by a thread that waits for storage.
bool HostSink::read_again(const ReadChunk& read, std::vector<ChunkConsumer>& joined) {
  const ChunkPlace& where = chunks_->where(read.chunk);
  Object& object = *chunks_->object_with(read.chunk);
  if (!object.forget_piece({where.offset, where.bytes})) return false;
  const auto failure = failure_of([&] {
    std::vector<std::byte> packed(where.bytes);
    {
      const Lock lock(mutex_);
      joined_again_[read.chunk] = std::move(joined);
    }
    const Stopwatch watch;
    chunks_->while_wanted([&] { object.read_exact(where.offset, packed); });
    count_read(chunks_->board(), watch.elapsed(), where.bytes, where.bytes);
    joined = take_back(read.chunk);
    ReadChunk again = read;
    again.packed = packed;
    static_cast<void>(decode_and_place(again, joined, [] { return true; }));
    object.keep_piece(where.offset, packed);
  });
  if (joined.empty()) joined = take_back(read.chunk);
  return !failure;
}

std::vector<ChunkConsumer> HostSink::take_back(std::size_t chunk) noexcept {
  const Lock lock(mutex_);
  auto found = joined_again_.extract(chunk);
  return found ? std::move(found.mapped()) : std::vector<ChunkConsumer>();
}

void HostSink::fail_read(std::size_t chunk, const Error& why) noexcept {
  std::vector<ChunkConsumer> joined = take_back(chunk);
  if (joined.empty()) joined = joined_to(chunk);
  fail(chunk, joined, why);
}

// What is not encoded is placed from where it lies, so it is copied first. Jobs that joined wait for the read of
// another one.
bool HostSink::take_kept(std::size_t thread, std::size_t chunk, const ChunkTier::Hold& kept,
                         std::stop_token stop) noexcept {
  const IsIntact is_intact = [&kept] { return kept.is_intact(); };
  try {
    std::span<const std::byte> packed = kept.bytes();
    std::optional<Arena::Piece> copy;
    if (chunks_->metadata_of(chunk).codecs.is_raw()) {
      copy.emplace(memory_.scratch.take(packed.size(), stop));
      std::ranges::copy(packed, copy->bytes().begin());
      packed = copy->bytes().first(packed.size());
    }
    return decode_and_place({thread, chunk, packed, {}, std::move(stop)}, {}, is_intact);
  } catch (...) {
    const Error why = current_error();
    if (!kept.is_intact() || why.status() == Status::decode) return false;
    fail(chunk, {}, why);
    return true;
  }
}

// Decodes all of a chunk into the memory that keeps it. False, without an error, if it is not kept: it has no room,
// what no row needs of it is damaged, or it is not intact.
bool HostSink::keep_and_place(const ReadChunk& read, std::span<const ChunkConsumer> joined, const IsIntact& is_intact) {
  ChunkTier::Filling room = decoded_.reserve(read.chunk);
  if (!room) return false;
  chunks_->check_wanted();
  const ArrayMetadata& metadata = chunks_->metadata_of(read.chunk);
  if (metadata.codecs.is_raw()) {
    if (read.packed.size() != room.bytes().size()) return false;
    std::ranges::copy(read.packed, room.bytes().begin());
    chunks_->count_decode({}, read.packed.size(), read.packed.size());
  } else {
    const ByteRange whole{0, room.bytes().size()};
    const DecodeResult result =
        decode_chunk(*chunks_, read.chunk, read.packed, {}, {&whole, 1}, room.bytes(), memory_.contexts[read.thread]);
    if (!result.ok()) return false;
  }
  if (!is_intact()) return false;
  const ChunkTier::Hold kept = room.publish();
  place(read.chunk, joined, kept.bytes());
  return true;
}

// All of a chunk that was decoded.
void HostSink::keep_encoded(std::size_t chunk, std::span<const std::byte> packed) {
  if (!encoded_.may_be_kept(chunk)) return;
  ChunkTier::Filling room = encoded_.reserve(chunk);
  if (!room) return;
  std::ranges::copy(packed, room.bytes().begin());
  static_cast<void>(room.publish());
}

std::vector<ByteRange> HostSink::needed_by(std::size_t chunk, std::span<const ChunkConsumer> joined) const {
  std::vector<ByteRange> needed = chunks_->needed_bytes(chunk);
  for (const ChunkConsumer& consumer : joined) {
    const auto more = consumer.chunks().needed_bytes(consumer.chunk());
    needed.insert(needed.end(), more.begin(), more.end());
  }
  if (!joined.empty()) merge_ranges(needed);
  return needed;
}

void HostSink::place(std::size_t chunk, std::span<const ChunkConsumer> joined, std::span<const std::byte> decoded) {
  place_one(*chunks_, chunk, decoded, Decode::on_host);
  for (const ChunkConsumer& consumer : joined) place_one(consumer.chunks(), consumer.chunk(), decoded, Decode::joined);
}

void HostSink::fail(std::size_t chunk, std::span<const ChunkConsumer> joined, const Error& why) noexcept {
  chunks_->fail_chunk(chunk, why);
  for (const ChunkConsumer& consumer : joined) consumer.chunks().fail_chunk(consumer.chunk(), why);
}

void HostSink::place_cached(std::span<const Decoded> chunks) noexcept {
  const Decode how = tiers_.is_for_jobs ? Decode::joined : Decode::cached;
  const bool is_together = chunks.size() > 1 && is_streamed(chunks_->destination().memory().size());
  if (is_together && !failure_of([&] { place_together(*chunks_, chunks, how); })) return;
  for (const Decoded& each : chunks) {  // so that a failure is that of its chunk
    const auto failure = failure_of([&] { place_one(*chunks_, each.chunk, each.bytes, how); });
    if (failure) chunks_->fail_chunk(each.chunk, *failure);
  }
}

void HostSink::fill(std::size_t chunk) noexcept {
  const auto failure = failure_of([&] { copy_uses(*chunks_, chunk, From::fill, chunks_->fill_of(chunk)); });
  if (failure) chunks_->fail_chunk(chunk, *failure);
}

}  // namespace damacy
