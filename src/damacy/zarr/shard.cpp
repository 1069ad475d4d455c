#include "damacy/zarr/shard.h"

#include <utility>

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

}  // namespace

Shard read_outermost_shard(const Array& array, std::string key, std::shared_ptr<Object> object) {
  const ByteRange whole{0, object->stamp().size};
  return read_uncharged(array, std::move(key), std::move(object), whole, 0, Dims(array.rank(), 0));
}

Shard read_inner_shard(const Array& array, const Shard& outer, std::size_t level, const Dims& chunk) {
  const auto range = outer.index->find(array.entry_at(level - 1, chunk));
  if (!range) return {outer.key, outer.object, ShardIndex()};
  return read_uncharged(array, outer.key, outer.object, *range, level, chunk);
}

ShardIndex read_shard_index(const Array& array, Object& object) {
  const auto free_of_charge = [](std::uint64_t) { return Charge(); };
  const Dims first(array.rank(), 0);
  return read_shard(array, 0, {object, {0, object.stamp().size}}, first, free_of_charge).index;
}

}  // namespace damacy
