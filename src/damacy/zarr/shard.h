// A stored shard that was opened, and how one is read that nobody keeps. Knows bytes and indices; no cache.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/shard_index.h"

namespace damacy {

// One shard of an array as it was when its index was read (unsharded: when it was opened). Absent shards are not kept.
struct Shard {
  std::string key;
  std::shared_ptr<Object> object;   // kept open for as long as somebody uses the shard
  std::optional<ShardIndex> index;  // empty: unsharded, the object is the chunk
};

// Reads and checks the outermost index of a stored shard of `array`, in one request. Throws Error. For shards that are
// one deep and have no codecs behind them, for others ask the catalog.
[[nodiscard]] ShardIndex read_shard_index(const Array& array, Object& object);
// The outermost shard of a stored object, and the shard of `level` in one of the level before that holds `chunk`. Where
// codecs lie behind a shard, Shard::object is the decoded shard, whole in memory; what an index does not name has an
// index that names nothing. Nothing is kept. Throw Error with the byte range.
[[nodiscard]] Shard read_outermost_shard(const Array& array, std::string key, std::shared_ptr<Object> object);
[[nodiscard]] Shard read_inner_shard(const Array& array, const Shard& outer, std::size_t level, const Dims& chunk);

}  // namespace damacy
