#include "damacy/zarr/detail/metadata_cache.h"

#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/storage_watch.h"

namespace damacy {

MetadataCache::Claim::~Claim() {
  if (!name_) return;
  {
    const Lock lock(cache_.mutex_);
    cache_.loading_.erase(*name_);
  }
  cache_.load_ended_.notify_all();
}

bool MetadataCache::begin_load(const std::string& name, Claim& claim, Lock& lock) {
  std::string mine = name;  // before anybody waits for this: it may fail
  if (loading_.insert(name).second) {
    claim.name_ = std::move(mine);
    return true;
  }
  const LockRelease meanwhile(lock, mutex_);
  StorageWatch::wait_behind([&] {
    Lock again(mutex_);
    load_ended_.wait(again, [&]() DAMACY_REQUIRES(mutex_) { return !loading_.contains(name); });
  });
  return false;
}

ArrayEntry MetadataCache::find_array(const std::string& name, Claim& claim) {
  Lock lock(mutex_);
  for (;;) {
    if (const ArrayEntry* const kept = arrays_.use(name, ++uses_)) {
      ++counts_.array_hits;
      return *kept;
    }
    if (!begin_load(name, claim, lock)) continue;
    ++counts_.array_misses;
    return nullptr;
  }
}

IndexEntry MetadataCache::find_index(const std::string& name, const Array& array, const Stamp* wanted, Claim& claim) {
  Lock lock(mutex_);
  for (;;) {
    const IndexEntry* const kept = indices_.use(name, ++uses_);
    if (kept != nullptr && (*kept)->document == array.document_stamp() &&
        (wanted == nullptr || (*kept)->object == *wanted)) {
      ++counts_.shard_hits;
      return *kept;
    }
    if (!begin_load(name, claim, lock)) continue;
    ++counts_.shard_misses;
    return nullptr;
  }
}

Charge MetadataCache::reserve(std::uint64_t bytes) {
  const auto is_unused = [](const auto& entry) { return entry.use_count() == 1; };
  const Lock lock(mutex_);
  while (ledger_->used() + bytes > limits_.bytes) {
    const auto array = arrays_.oldest(is_unused);
    const auto index = indices_.oldest(is_unused);
    const bool has_array = array != arrays_.end(), has_index = index != indices_.end();
    if (has_array && (!has_index || array->last_use < index->last_use))
      arrays_.take(array);
    else if (has_index)
      indices_.take(index);
    else
      throw Error(Status::oom,
                  formatted("metadata cache full: need {} bytes, {} of {} in use (includes decoded shards)", bytes,
                            ledger_->used(), limits_.bytes),
                  "memory");
  }
  return Charge(ledger_, bytes);
}

void MetadataCache::keep(const std::string& name, const ArrayEntry& loaded) {
  const Lock lock(mutex_);
  arrays_.add(name, loaded, ++uses_);
  arrays_.trim(limits_.arrays);
}

void MetadataCache::keep(const std::string& name, const IndexEntry& loaded) {
  const Lock lock(mutex_);
  indices_.add(name, loaded, ++uses_);
  indices_.trim(limits_.shards);
}

void MetadataCache::drop_array(const std::string& name, const Array* array) {
  const Lock lock(mutex_);
  const auto at = arrays_.find(name);
  if (at != arrays_.end() && at->value->array.get() == array) arrays_.take(at);
}

void MetadataCache::drop_index(const std::string& name) {
  const Lock lock(mutex_);
  const auto at = indices_.find(name);
  if (at != indices_.end()) indices_.take(at);
}

void MetadataCache::clear() {
  Lru<ArrayEntry> arrays;  // freed outside the lock
  Lru<IndexEntry> indices;
  const Lock lock(mutex_);
  std::swap(arrays, arrays_);
  std::swap(indices, indices_);
}

CatalogCounts MetadataCache::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

void MetadataCache::reset_counts() {
  const Lock lock(mutex_);
  counts_ = {};
}

}  // namespace damacy
