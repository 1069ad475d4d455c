// What the catalog has learnt and keeps for a while: arrays and shard indices, each in an LRU cache with a cap on
// entries, together under a cap on bytes. One thread loads what is missing, others wait for it. Knows entries and their
// names; asks no store. Private to layer zarr.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/catalog_limits.h"
#include "damacy/zarr/detail/ledger.h"
#include "damacy/zarr/detail/lru.h"
#include "damacy/zarr/detail/opening.h"
#include "damacy/zarr/detail/shard_reader.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

constexpr std::uint64_t kEntryOverhead = 256;  // of lists, maps and allocations, about

struct KeptArray {
  Charge charge;
  std::shared_ptr<const Array> array;
  std::vector<ReadDocument> documents;  // the array's own, and those of groups it was found through
};

struct KeptIndex {
  ReadIndex read;
  Stamp object;
  Stamp document;  // of the array whose layout the index was read by
};

using ArrayEntry = std::shared_ptr<const KeptArray>;
using IndexEntry = std::shared_ptr<const KeptIndex>;

class MetadataCache {
 public:
  explicit MetadataCache(const CatalogLimits& limits) : limits_(limits) {}

  // That one thread loads something: the others wait for it.
  class Claim {
   public:
    explicit Claim(MetadataCache& cache) : cache_(cache) {}
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim();

   private:
    friend class MetadataCache;
    // False: somebody else has it; waits until that has changed.
    bool take(const std::string& name, Lock& lock);  // of the cache; not held while it waits

    MetadataCache& cache_;
    std::optional<std::string> name_;
  };

  // Null: not there, and now the caller's to load, as long as it keeps the claim. Waits while another thread loads it.
  ArrayEntry find_array(const std::string& name, Claim& claim);
  // With `wanted`, one that was read from another version does not count.
  IndexEntry find_index(const std::string& name, const Array& array, const Stamp* wanted, Claim& claim);
  // Drops what has not been used for longest, and nobody holds, until `bytes` more fit. Throws Error(oom, "memory").
  Charge reserve(std::uint64_t bytes);
  void keep(const std::string& name, const ArrayEntry& loaded);
  void keep(const std::string& name, const IndexEntry& loaded);
  void drop_array(const std::string& name, const Array* array);
  void drop_index(const std::string& name);
  void clear();

  CatalogCounts counts() const;
  void reset_counts();

 private:
  const CatalogLimits limits_;
  const std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  mutable Mutex mutex_;  // over all below
  std::uint64_t uses_ DAMACY_GUARDED_BY(mutex_) = 0;
  Lru<ArrayEntry> arrays_ DAMACY_GUARDED_BY(mutex_);
  Lru<IndexEntry> indices_ DAMACY_GUARDED_BY(mutex_);
  std::set<std::string> loading_ DAMACY_GUARDED_BY(mutex_);
  Condition load_ended_;
  CatalogCounts counts_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
