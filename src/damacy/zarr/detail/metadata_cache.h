// The catalog's caches of arrays and shard indices: LRU caches with a cap on entries each, and a common cap on bytes.
// One thread loads a missing entry, and others wait for it. Knows entries and their names; calls no store. Private to
// layer zarr.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "damacy/core/lru.h"
#include "damacy/core/mutex.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/catalog_limits.h"
#include "damacy/zarr/detail/ledger.h"
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

  // The right of one thread to load an entry; other threads wait for it.
  class Claim {
   public:
    explicit Claim(MetadataCache& cache) : cache_(cache) {}
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim();

   private:
    friend class MetadataCache;

    MetadataCache& cache_;
    std::optional<std::string> name_;
  };

  // Null if absent: the caller must load the entry while it holds the claim. Waits while another thread loads it.
  ArrayEntry find_array(const std::string& name, Claim& claim);
  // With `wanted`, an entry of another version counts as absent.
  IndexEntry find_index(const std::string& name, const Array& array, const Stamp* wanted, Claim& claim);
  // Evicts the least recently used entries that are not in use, until `bytes` more fit. Throws Error(oom, "memory").
  Charge reserve(std::uint64_t bytes);
  void keep(const std::string& name, const ArrayEntry& loaded);
  void keep(const std::string& name, const IndexEntry& loaded);
  void drop_array(const std::string& name, const Array* array);
  void drop_index(const std::string& name);
  void clear();

  CatalogCounts counts() const;
  void reset_counts();

 private:
  // Gives the claim to the caller. False if another thread has it; then waits, without the lock, until that thread has
  // released it.
  bool begin_load(const std::string& name, Claim& claim, Lock& lock) DAMACY_REQUIRES(mutex_);

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
