// An opened stored shard, where its chunks are, and how to read one without the cache. Knows bytes and indices.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
// The outermost shard of a stored object. If codecs follow sharding, Shard::object is the decoded shard in memory.
// Nothing is cached. Throws Error with the byte range.
[[nodiscard]] Shard read_outermost_shard(const Array& array, std::string key, std::shared_ptr<Object> object);

// The innermost shards of one stored object, read as chunks need them. The last one stays, with those around it, so
// that an index is read once if the chunks of a shard follow one another (of shards three deep the middle ones perhaps
// more often).
class NestedShards {
 public:
  // `array` outlives it.
  NestedShards(const Array& array, Shard outermost) : array_(array) { open_.push_back(std::move(outermost)); }
  // The shard that has `chunk`, until the next call. One that an index lacks has an empty index. Throws Error with the
  // byte range.
  const Shard& innermost(const Dims& chunk);

 private:
  const Array& array_;
  std::vector<Shard> open_;           // by level
  std::vector<std::size_t> entries_;  // that led to those behind the first
};

// Where an encoded chunk lies in its object.
struct ChunkPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool missing = false;
  bool failed = false;  // it could not be located
};

// `shard`: null if it is absent. Throws Error (short-read, size or limit, with the byte range) when an unsharded object
// cannot be the array's chunk.
[[nodiscard]] ChunkPlace place_of_chunk(const Array& array, const Shard* shard, std::size_t index_in_shard);

}  // namespace damacy
