// What has been learnt of stores and is kept for a while: opened arrays and shard indices, each in an LRU cache with a
// cap on entries, together under a cap on bytes. Safe for several threads; what is loaded twice at once is kept once.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "damacy/zarr/array.h"
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

class Catalog {
 public:
  struct Limits {
    std::size_t arrays = 64;
    std::size_t shards = 256;
    std::uint64_t bytes = 256 << 20;
    std::size_t open_files = 64;
  };
  explicit Catalog(const Limits& limits);
  // Stores come from `make_store`, one for each path that is in use; otherwise they are directories of the file system,
  // which keep at most Limits::open_files objects open together.
  using MakeStore = std::function<std::shared_ptr<Store>(const std::string& path)>;
  Catalog(const Limits& limits, MakeStore make_store);

  // Opens or finds. A cached array whose document changed is dropped and thrown as Error(io, "changed").
  std::shared_ptr<const Array> array(const std::string& uri);
  // Empty: the object does not exist. Reads the index (one request, plus open) or finds it; a cached one is compared
  // with the object's stamp now ("changed" as above, also when it is gone).
  std::shared_ptr<const Shard> shard(const Array& array, const Dims& shard);
  // Throws Error(io, "changed") if a document or shard is not what it was.
  void check_unchanged(const Array& array);
  void check_unchanged(const Array& array, const Shard& shard);

  // For a chunk that is missing from an array with metadata().separator_was_absent: throws Error(decode,
  // "dimension-separator") when the array's directory looks as if its chunks lay in nested directories, for then the
  // chunk would be read as fill although it may be there. Looks once an array.
  void check_missing_chunk(const Array& array);

  struct Counts {
    std::uint64_t array_hits = 0, array_misses = 0, shard_hits = 0, shard_misses = 0;
  };
  Counts counts() const;
  void reset_counts();
  void clear();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace damacy
