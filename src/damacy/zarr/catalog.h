// Opened arrays and shards by name: cached ones (detail/metadata_cache) if they are still the stored version, else read
// from the store. Knows stores and changes; the cache decides what is kept, and for how long. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "damacy/store/network_counts.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/catalog_limits.h"
#include "damacy/zarr/documents_ahead.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/shard.h"

namespace damacy {

class DiskTier;
struct MountedUri;

class Catalog {
 public:
  using Limits = CatalogLimits;
  using Counts = CatalogCounts;

  // Remote stores are read through `tier`, if there is one.
  explicit Catalog(const Limits& limits, std::shared_ptr<DiskTier> tier = nullptr);
  // Stores come from `make_store`, one for each path that is in use; otherwise they are directories of the file system,
  // which keep at most Limits::open_files objects open together.
  using MakeStore = std::function<std::shared_ptr<Store>(const std::string& path)>;
  Catalog(const Limits& limits, MakeStore make_store, std::shared_ptr<DiskTier> tier = nullptr);

  // Opens or finds. A cached array whose document changed is dropped and thrown as Error(io, "changed"). A uri keeps
  // what was mounted for it when it was opened first, until the catalog ends.
  std::shared_ptr<const Array> array(const std::string& uri);
  // The same in what was mounted then.
  std::shared_ptr<const Array> array(const MountedUri& place);
  // The documents of arrays that several threads will open in about this order. Null: no uri is of a remote store.
  std::unique_ptr<DocumentsAhead> documents_ahead(std::vector<std::string> uris, const DocumentsAhead::Wish& wish);
  // Empty if the object does not exist. Reads the index (one request, plus open) or takes the cached one, which is
  // compared with the object's current stamp ("changed" as above, also if the object is gone).
  std::shared_ptr<const Shard> shard(const Array& array, const Dims& shard);
  // Throws Error(io, "changed") if a document or shard has changed.
  void check_unchanged(const Array& array);
  void check_unchanged(const Array& array, const Shard& shard);

  // For a chunk that is missing from an array with metadata().separator_was_absent: throws Error(decode,
  // "dimension-separator") if the array's directory seems to have its chunks in nested directories: the chunk would be
  // read as fill value although it may exist. Looks once per array.
  static void check_missing_chunk(const Array& array, std::string_view key);

  Counts counts() const;
  NetworkCounts::Seen network() const;  // of the remote stores
  void reset_counts();
  void clear();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace damacy
