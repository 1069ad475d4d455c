// An opened stored shard, and how to read one without the cache. Knows bytes and indices.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/shard_index.h"

namespace damacy {

// One shard of an array, in the version whose index was read (unsharded: that was opened). Absent shards are not
// cached.
struct Shard {
  std::string key;
  std::shared_ptr<Object> object;   // open as long as the shard is in use
  std::optional<ShardIndex> index;  // empty: unsharded, the object is the chunk
};

// Reads and checks the outermost index of a stored shard of `array`, in one request. Throws Error. Only for shards
// without nesting and without codecs after sharding; the catalog reads others.
[[nodiscard]] ShardIndex read_shard_index(const Array& array, Object& object);
// The outermost shard of a stored object, and the shard of `level` that contains `chunk`, in a shard of the previous
// level. If codecs follow sharding, Shard::object is the decoded shard in memory. A shard missing from an index gets an
// empty index. Nothing is cached. Throw Error with the byte range.
[[nodiscard]] Shard read_outermost_shard(const Array& array, std::string key, std::shared_ptr<Object> object);
[[nodiscard]] Shard read_inner_shard(const Array& array, const Shard& outer, std::size_t level, const Dims& chunk);

}  // namespace damacy
