#include "damacy/single/object_chunks.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "damacy/core/text.h"
#include "damacy/zarr/box_copy.h"
#include "damacy/zarr/catalog.h"
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

void ObjectChunks::open() {
  job_->check_wanted();
  object_ = job_->request.store->open(key());
  list_chunks();
  if (object_) {
    locate_chunks();
  } else {
    for (const std::uint32_t item : items_) job_->missing[item] = 1;
    for (Chunk& chunk : chunks_) chunk.place.missing = true;
  }
  const auto missing = std::ranges::count_if(chunks_, [](const Chunk& chunk) { return chunk.place.missing; });
  job_->readers.counters().chunks_missing += missing;
}

void ObjectChunks::list_chunks() {
  std::vector<std::pair<std::uint64_t, Part>> wanted;
  selections_.reserve(items_.size());
  for (const std::uint32_t item : items_) {
    selections_.emplace_back(job_->request.items[item].axes, array().metadata().chunk_shape);
    const SplitSelection& selection = selections_.back();
    for (std::int64_t part = 0; part < selection.size(); ++part)
      wanted.push_back(
          {number_of(selection.chunk_of(part)), {static_cast<std::uint32_t>(selections_.size() - 1), part}});
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  parts_.reserve(wanted.size());
  for (const auto& [number, part] : wanted) {
    if (chunks_.empty() || chunks_.back().number != number)
      chunks_.push_back({number, static_cast<std::uint32_t>(parts_.size()), 0});
    ++chunks_.back().part_count;
    parts_.push_back(part);
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
  const Part& part = parts_[chunk.first_part];
  return selections_[part.selection].chunk_of(part.number);
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
    try {
      const StoredChunk stored = find_stored_chunk(array(), open.back(), chunk.number % array().chunks_per_shard());
      chunk.place = {stored.offset, stored.bytes, stored.missing};
    } catch (Error& error) {
      throw name_chunk(error, chunk);
    }
  }
}

// Chunks of shards that were decoded as a whole lie in objects of their own.
std::vector<LocatedChunks::Group> ObjectChunks::groups() const {
  std::vector<Group> groups;
  for (std::uint32_t c = 0; c < chunks_.size(); ++c) {
    if (c == 0 || chunks_[c].object != chunks_[c - 1].object) groups.push_back({c, 0});
    ++groups.back().count;
  }
  return groups;
}

// The index is kept from one read to the next; a shard that was decoded as a whole is not.
Shard ObjectChunks::outermost_shard() {
  if (!array().metadata().shards.front().codecs.codecs().empty()) return read_outermost_shard(array(), key(), object_);
  return {key(), object_, index_of_object()};
}

ShardIndex ObjectChunks::index_of_object() {
  if (!job_->request.keeps_indices) return read_shard_index(array(), *object_);
  IndexCache& cache = job_->readers.indices();
  const std::string name = text(job_->request.store->name(), '\0', key());
  if (auto known = cache.find(name, object_->stamp())) {
    ++job_->readers.counters().index_hits;
    return *known;
  }
  ++job_->readers.counters().index_misses;
  const std::int64_t now = system_ns();
  ShardIndex index = read_shard_index(array(), *object_);
  cache.keep(name, object_->stamp(), now, index);
  return index;
}

std::vector<ByteRange> ObjectChunks::needed_bytes(std::size_t chunk) const {
  std::vector<ByteRange> ranges;
  for (const Part& part : parts_of(chunk))
    ranges.push_back(
        selections_[part.selection].bytes_of(part.number, array().chunk_strides(), size_of(array().metadata().dtype)));
  merge_ranges(ranges);
  return ranges;
}

// The cores decode such chunks. Then no more bytes are uploaded than are stored.
bool ObjectChunks::worth_reading_partially(std::size_t chunk) const {
  if (!WantedChunks::worth_reading_partially(chunk)) return false;
  if (job_->request.device == nullptr) return true;
  std::uint64_t needed = 0;
  for (const ByteRange& range : needed_bytes(chunk)) needed += range.size();
  return needed <= where(chunk).bytes;
}

// Elements keep their bits.
CopyOp ObjectChunks::op_of(From from) const noexcept {
  const ArrayMetadata& metadata = array().metadata();
  const Dtype bits = type_of_bits(metadata.dtype);
  const bool swaps = (from == From::chunk && metadata.swap_bytes) != job_->request.swap_out;
  return {bits, bits, swaps && scalar_size_of(bits) > 1};
}

void ObjectChunks::visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const {
  const Dims strides = from == From::chunk ? array().chunk_strides() : Dims(array().rank(), 0);
  for (const Part& part : parts_of(chunk))
    selections_[part.selection].for_copies(part.number, strides, job_->out_begin(), op_of(from),
                                           [&](const BlockCopy& copy) { visit({0, copy}); });
}

std::int64_t ObjectChunks::count_uses(std::size_t chunk) const noexcept {
  std::int64_t uses = 0;
  for (const Part& part : parts_of(chunk)) uses += selections_[part.selection].copies(part.number);
  return uses;
}

std::span<const std::byte> ObjectChunks::fill_of(std::size_t) const {
  return std::span(job_->request.fill).first(size_of(array().metadata().dtype));
}

void ObjectChunks::count_decode(StatsBoard::Span, std::uint64_t encoded, std::uint64_t decoded) noexcept {
  ReadCounters& counters = job_->readers.counters();
  ++counters.chunks_decoded;
  counters.stored_bytes += static_cast<std::int64_t>(encoded);
  counters.decoded_bytes += static_cast<std::int64_t>(decoded);
}

void ObjectChunks::fail_all(const Error& error) noexcept {
  job_->fail(extended(error, [&](Error& located) {
    located.in_shard(!array().metadata().shards.empty()).at_uri(job_->request.object->uri());
    located.at_store(job_->request.store->name()).at_key(key());
  }));
}

Error& ObjectChunks::name_chunk(Error& error, const Chunk& chunk) const {
  const auto object = coordinates_in_key(array().metadata(), key());
  if (!object) return error;
  const Dims inside = coordinates_of(chunk);
  std::vector<std::int64_t> coordinates;
  for (std::size_t axis = 0; axis < inside.size(); ++axis)
    coordinates.push_back((*object)[axis] * array().grid()[axis] + inside[axis]);
  return error.at_chunk(std::move(coordinates));
}

void ObjectChunks::fail_chunk(std::size_t chunk, const Error& error) noexcept {
  fail_all(extended(error, [&](Error& located) {
    name_chunk(located, chunks_[chunk]);
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
