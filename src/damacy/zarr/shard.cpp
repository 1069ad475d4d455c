#include "damacy/zarr/shard.h"

#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/zarr/detail/ledger.h"
#include "damacy/zarr/detail/shard_reader.h"

namespace damacy {
namespace {

Shard read_uncharged(const Array& array, std::string key, std::shared_ptr<Object> object, const ByteRange& bytes,
                     std::size_t level, const Dims& chunk) {
  const auto free_of_charge = [](std::uint64_t) { return Charge(); };
  ReadIndex read = read_shard(array, level, {*object, bytes}, chunk, free_of_charge);
  if (read.decoded) object = std::move(read.decoded);
  return {std::move(key), std::move(object), std::move(read.index)};
}

// The shard of `level` that contains `chunk`, in a shard of the previous level.
Shard read_inner_shard(const Array& array, const Shard& outer, std::size_t level, const Dims& chunk) {
  const auto range = outer.index->find(array.entry_at(level - 1, chunk));
  if (!range) return {outer.key, outer.object, ShardIndex()};
  return read_uncharged(array, outer.key, outer.object, *range, level, chunk);
}

}  // namespace

Shard read_outermost_shard(const Array& array, std::string key, std::shared_ptr<Object> object) {
  const ByteRange whole{0, object->stamp().size};
  return read_uncharged(array, std::move(key), std::move(object), whole, 0, Dims(array.rank(), 0));
}

const Shard& NestedShards::innermost(const Dims& chunk) {
  for (std::size_t level = 1; level < array_.metadata().shards.size(); ++level) {
    const std::size_t entry = array_.entry_at(level - 1, chunk);
    if (open_.size() > level && entries_[level - 1] == entry) continue;
    open_.resize(level);
    entries_.resize(level - 1);
    open_.push_back(read_inner_shard(array_, open_.back(), level, chunk));
    entries_.push_back(entry);
  }
  return open_.back();
}

ShardIndex read_shard_index(const Array& array, Object& object) {
  const auto free_of_charge = [](std::uint64_t) { return Charge(); };
  const Dims first(array.rank(), 0);
  return read_shard(array, 0, {object, {0, object.stamp().size}}, first, free_of_charge).index;
}

ChunkPlace place_of_chunk(const Array& array, const Shard* shard, std::size_t index_in_shard) {
  if (shard == nullptr) return {.missing = true};
  if (shard->index) {
    const auto range = shard->index->find(index_in_shard);
    return range ? ChunkPlace{range->begin, range->size()} : ChunkPlace{.missing = true};
  }
  const std::uint64_t stored = shard->object->stamp().size;
  const CodecChain& codecs = array.metadata().codecs;
  if (codecs.fixed_size()) {
    const std::uint64_t exact = codecs.fixed_encoded_size(array.metadata().chunk_bytes());
    if (stored < exact)
      throw Error(Status::io, formatted("short read: {} of {} bytes", stored, exact), "short-read").at_bytes(0, exact);
    if (stored > exact)
      throw Error(Status::decode, formatted("the object has {} bytes, a chunk has {}", stored, exact), "size")
          .at_bytes(0, stored);
  } else if (stored > array.max_encoded_chunk_bytes()) {
    throw Error(
        Status::inval,
        formatted("an encoded chunk of {} bytes exceeds the limit of {}", stored, array.max_encoded_chunk_bytes()),
        "limit")
        .at_bytes(0, stored);
  }
  return {0, stored};
}

}  // namespace damacy
