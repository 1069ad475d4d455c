// Opened arrays and shards by name: kept ones (detail/metadata_cache) while they are what the store has, else read.
// Knows stores, and what has changed; what is kept, and for how long, is the cache's. Safe for several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "damacy/zarr/array.h"
#include "damacy/zarr/catalog_limits.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/shard.h"

namespace damacy {

class Catalog {
 public:
  using Limits = CatalogLimits;
  using Counts = CatalogCounts;

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

  Counts counts() const;
  void reset_counts();
  void clear();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace damacy
