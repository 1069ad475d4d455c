#include "damacy/single/object_chunks.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "damacy/batch/place.h"
#include "damacy/core/text.h"
#include "damacy/wave/stage_frames.h"
#include "damacy/zarr/catalog.h"
#include "damacy/zarr/decode_error.h"
#include "damacy/zarr/stored_chunk.h"

namespace damacy {
namespace {

std::int64_t system_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ObjectChunks::ObjectChunks(std::shared_ptr<SelectionJob> job, std::span<const std::uint32_t> items)
    : job_(std::move(job)), items_(items.begin(), items.end()) {}

ChunkReads ObjectChunks::open(std::stop_token stop) {
  job_->check_wanted();
  object_ = job_->request.store->open(key());
  list_chunks();
  ChunkReads reads;
  if (object_) {
    locate_chunks();
    find_reads_of_objects(reads);
  } else {
    for (const std::uint32_t item : items_) job_->missing[item] = 1;
    for (std::uint32_t c = 0; c < chunks_.size(); ++c) reads.missing.push_back(c);
  }
  for (const std::uint32_t chunk : reads.missing) fill(chunk, stop);
  return reads;
}

void ObjectChunks::list_chunks() {
  std::vector<std::pair<std::uint64_t, Use>> wanted;
  selections_.reserve(items_.size());
  for (const std::uint32_t item : items_) {
    selections_.emplace_back(job_->request.items[item].axes, array().metadata().chunk_shape);
    const SplitSelection& selection = selections_.back();
    for (std::int64_t part = 0; part < selection.size(); ++part)
      wanted.push_back(
          {number_of(selection.chunk_of(part)), {static_cast<std::uint32_t>(selections_.size() - 1), part}});
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  uses_.reserve(wanted.size());
  for (const auto& [number, use] : wanted) {
    if (chunks_.empty() || chunks_.back().number != number)
      chunks_.push_back({number, static_cast<std::uint32_t>(uses_.size()), 0});
    ++chunks_.back().use_count;
    uses_.push_back(use);
  }
}

std::uint64_t ObjectChunks::number_of(const Dims& chunk) const noexcept {
  const Dims shard = array().shard_of_chunk(chunk);
  std::uint64_t number = 0;
  for (std::size_t axis = 0; axis < shard.size(); ++axis)
    number = number * static_cast<std::uint64_t>(array().shard_grid()[axis]) + static_cast<std::uint64_t>(shard[axis]);
  return number * array().chunks_per_shard() + array().index_in_shard(chunk);
}

Dims ObjectChunks::coordinates_of(const Chunk& chunk) const {
  const Use& use = uses_[chunk.first_use];
  return selections_[use.selection].chunk_of(use.part);
}

// Chunks of one innermost shard stand together: its index is read once (of shards three deep the middle ones perhaps
// more often).
void ObjectChunks::locate_chunks() {
  if (chunks_.empty()) return;
  const std::size_t levels = array().metadata().shards.size();
  std::vector<Shard> open{levels == 0 ? Shard{key(), object_, std::nullopt} : outermost_shard()};
  std::vector<std::size_t> entries;  // that led to them
  objects_ = {open.back().object};
  for (Chunk& chunk : chunks_) {
    const Dims at = coordinates_of(chunk);
    for (std::size_t level = 1; level < levels; ++level) {
      const std::size_t entry = array().entry_at(level - 1, at);
      if (open.size() > level && entries[level - 1] == entry) continue;
      open.resize(level);
      entries.resize(level - 1);
      open.push_back(read_inner_shard(array(), open.back(), level, at));
      entries.push_back(entry);
    }
    if (objects_.back() != open.back().object) objects_.push_back(open.back().object);
    chunk.object = static_cast<std::uint32_t>(objects_.size() - 1);
    const StoredChunk stored = find_stored_chunk(array(), open.back(), chunk.number % array().chunks_per_shard());
    chunk.place = {stored.offset, stored.bytes, stored.missing};
  }
}

void ObjectChunks::find_reads_of_objects(ChunkReads& reads) const {
  for (std::uint32_t first = 0, last = 0; first < chunks_.size(); first = last) {
    while (last < chunks_.size() && chunks_[last].object == chunks_[first].object) ++last;
    find_reads(*this, first, last - first, [](std::uint32_t) { return false; }, reads);
  }
}

// The index is kept from one read to the next; a shard that was decoded as a whole is not.
Shard ObjectChunks::outermost_shard() {
  if (!array().metadata().shards.front().codecs.codecs().empty()) return read_outermost_shard(array(), key(), object_);
  return {key(), object_, index_of_object()};
}

ShardIndex ObjectChunks::index_of_object() {
  if (!job_->request.keeps_indices) return read_shard_index(array(), *object_);
  IndexCache& cache = job_->workers.indices();
  const std::string name = text(job_->request.store->name(), '\0', key());
  if (auto known = cache.find(name, object_->stamp())) {
    ++job_->workers.counters().index_hits;
    return *known;
  }
  ++job_->workers.counters().index_misses;
  const std::int64_t now = system_ns();
  ShardIndex index = read_shard_index(array(), *object_);
  cache.keep(name, object_->stamp(), now, index);
  return index;
}

std::vector<ByteRange> ObjectChunks::needed_bytes(std::size_t chunk) const {
  std::vector<ByteRange> ranges;
  for (const Use& use : uses_of(chunk))
    ranges.push_back(
        selections_[use.selection].bytes_of(use.part, array().chunk_strides(), size_of(array().metadata().dtype)));
  merge_ranges(ranges);
  return ranges;
}

bool ObjectChunks::take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
                        std::span<const ByteRange> available, std::stop_token stop) noexcept {
  try {
    job_->check_wanted();
    const ArrayMetadata& metadata = array().metadata();
    if (metadata.codecs.is_raw()) {
      count_decode({}, packed.size(), packed.size());
      place(chunk, packed, stop);
      return true;
    }
    if (job_->waves && device_decodes(metadata.codecs)) {
      stage_encoded(chunk, packed, stop);
      return true;
    }
    const Arena::Piece scratch = job_->memory->scratch.take(metadata.chunk_bytes(), stop);
    const DecodeResult result = decode_chunk(*this, chunk, packed, available, needed_bytes(chunk), scratch.bytes(),
                                             job_->workers.context(thread));
    if (result.status == DecodeStatus::need_more && !available.empty()) return false;
    if (result.ok())
      place(chunk, scratch.bytes(), stop);
    else
      fail_chunk(chunk, result);
  } catch (const std::exception&) {
    fail(chunk, current_error());
  }
  return true;
}

// Elements keep their bits: a bool that is neither 0 nor 1 too.
CopyOp ObjectChunks::copy_of(bool stored) const noexcept {
  const ArrayMetadata& metadata = array().metadata();
  const Dtype dtype = metadata.dtype == Dtype::boolean ? Dtype::u8 : metadata.dtype;
  const bool swaps = (stored && metadata.swap_bytes) != job_->request.swap_out;
  return {dtype, dtype, swaps && scalar_size_of(dtype) > 1};
}

Dims ObjectChunks::source_strides(bool stored) const {
  return stored ? array().chunk_strides() : Dims(array().rank(), 0);
}

void ObjectChunks::place(std::size_t chunk, std::span<const std::byte> decoded, std::stop_token stop) {
  if (job_->waves) {
    const std::vector<ByteRange> needed = needed_bytes(chunk);
    const ByteRange part{needed.front().begin, needed.back().end};
    job_->waves->add_elements(decoded.subspan(part.begin, part.size()), part.begin, decoded.size(), wave_chunk(chunk),
                              std::move(stop));
    return;
  }
  for (const Use& use : uses_of(chunk))
    selections_[use.selection].for_copies(use.part, source_strides(true), copy_of(true), [&](const BlockCopy& copy) {
      run_block_copy(copy, decoded, job_->request.out);
    });
}

void ObjectChunks::fill(std::size_t chunk, std::stop_token stop) {
  ++job_->workers.counters().chunks_missing;
  const std::span<const std::byte> element = std::span(job_->request.fill).first(size_of(array().metadata().dtype));
  if (job_->waves) {
    const auto place_fill = [this, self = shared_from_this(), chunk](PlacementList& list, std::uint64_t address,
                                                                     const ChunkLayout& layout) {
      add_placements(chunk, list, address, layout, false);
    };
    return job_->waves->add_elements(element, 0, element.size(), {place_fill, {}}, std::move(stop));
  }
  for (const Use& use : uses_of(chunk))
    selections_[use.selection].for_copies(use.part, source_strides(false), copy_of(false), [&](const BlockCopy& copy) {
      run_block_copy(copy, element, job_->request.out);
    });
}

void ObjectChunks::stage_encoded(std::size_t chunk, std::span<const std::byte> packed, std::stop_token stop) {
  const ArrayMetadata& metadata = array().metadata();
  job_->waves->add_encoded(metadata.codecs, packed, metadata.chunk_bytes(), needed_bytes(chunk), wave_chunk(chunk),
                           std::move(stop));
  count_decode({}, packed.size(), metadata.chunk_bytes());
}

WaveChunk ObjectChunks::wave_chunk(std::size_t chunk) {
  return {
      [this, self = shared_from_this(), chunk](PlacementList& list, std::uint64_t address, const ChunkLayout& layout) {
        add_placements(chunk, list, address, layout, true);
      },
      [this, self = shared_from_this(), chunk](std::span<const std::byte> packed, std::span<std::byte> decoded) {
        DecodeContext context;
        const DecodeResult result = array().metadata().codecs.decode(packed, decoded, needed_bytes(chunk), context);
        if (!result.ok()) fail_chunk(chunk, result);
        return result.ok();
      }};
}

void ObjectChunks::add_placements(std::size_t chunk, PlacementList& list, std::uint64_t address,
                                  const ChunkLayout& layout, bool stored) {
  const auto out = reinterpret_cast<std::uint64_t>(job_->request.out.data());
  for (const Use& use : uses_of(chunk))
    selections_[use.selection].for_copies(use.part, source_strides(stored), copy_of(stored),
                                          [&](const BlockCopy& copy) { list.add(copy, address, out, layout); });
}

void ObjectChunks::count_decode(StatsBoard::Span, std::uint64_t encoded, std::uint64_t decoded) noexcept {
  ReadCounters& counters = job_->workers.counters();
  ++counters.chunks_decoded;
  counters.stored_bytes += static_cast<std::int64_t>(encoded);
  counters.decoded_bytes += static_cast<std::int64_t>(decoded);
}

void ObjectChunks::fail_chunk(std::size_t chunk, const DecodeResult& result) noexcept {
  fail(chunk, decode_error(result));
}

void ObjectChunks::fail_object(const Error& error) noexcept {
  job_->fail(extended(error, [&](Error& located) {
    located.in_shard(!array().metadata().shards.empty()).at_uri(job_->request.object->uri());
    located.at_store(job_->request.store->name()).at_key(key());
  }));
}

void ObjectChunks::fail(std::size_t chunk, const Error& error) noexcept {
  fail_object(extended(error, [&](Error& located) {
    if (const auto object = coordinates_in_key(array().metadata(), key())) {
      const Use& use = uses_of(chunk).front();
      const Dims inside = selections_[use.selection].chunk_of(use.part);
      std::vector<std::int64_t> coordinates;
      for (std::size_t axis = 0; axis < inside.size(); ++axis)
        coordinates.push_back((*object)[axis] * array().grid()[axis] + inside[axis]);
      located.at_chunk(std::move(coordinates));
    }
    const ChunkPlace& place = chunks_[chunk].place;
    if (place.bytes > 0) located.at_bytes(place.offset, place.offset + place.bytes);
  }));
}

std::optional<Dims> coordinates_in_key(const ArrayMetadata& metadata, std::string_view key) {
  Dims found(metadata.chunk_shape.size(), 0);
  for (std::size_t axis = found.size(); axis-- > 0;) {
    const std::size_t begin = key.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
    const auto digits = key.substr(begin);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), found[axis]).ec != std::errc())
      return std::nullopt;
    key.remove_suffix(digits.size());
    if (axis == 0) break;
    if (!key.ends_with(metadata.keys.separator)) return std::nullopt;
    key.remove_suffix(1);
  }
  return found;
}

}  // namespace damacy
