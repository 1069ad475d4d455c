#include "damacy/cache/shared/shared_cache.h"

#include <limits>

namespace damacy {

using Tag = EntryState::Tag;

ChunkTier::Found SharedCache::find(const ChunkKey& key, std::uint64_t bytes) {
  const std::uint64_t hash = hash_of(key);
  const SharedRegion::Access access(*region_);
  if (!access) {
    count(&Counts::misses, bytes);
    return {};
  }
  SharedEntries& entries = region_->entries();
  const auto found = entries.find(key, hash);
  const EntryState state = found ? entries.state_of(*found) : EntryState{Tag::free, 0, 0};
  if (state.tag == Tag::whole && is_size_of(entries.bytes_of(*found).size(), bytes)) {
    entries.touch(*found);
    region_->hold(*found);
    count(&Counts::hits, entries.bytes_of(*found).size());
    return {Hold(*this, *found, state.word(), entries.bytes_of(*found), entries.note_of(*found)), false};
  }
  count(&Counts::misses, bytes);
  if (state.tag == Tag::filling) {
    region_->report_obstacle();
    return {};
  }
  entries.policy().miss(hash, entries.used());
  const bool fits = bytes <= region_->sizes().largest_chunk();
  return {{}, fits && (entries.free_bytes() >= bytes || entries.some_may_go())};
}

ChunkTier::Filling SharedCache::reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes) {
  const std::uint64_t largest = region_->sizes().largest_chunk();
  if (bytes == 0 || bytes > largest || note_bytes > largest - bytes ||
      note_bytes > std::numeric_limits<std::uint32_t>::max())
    return {};
  const std::uint64_t hash = hash_of(key);
  const SharedRegion::Access access(*region_);
  if (!access) return {};
  SharedEntries& entries = region_->entries();
  if (const auto found = entries.find(key, hash)) {
    if (entries.state_of(*found).tag != Tag::abandoned || !entries.may_go(*found)) {
      region_->report_obstacle();
      return {};
    }
    entries.drop(*found);
  }
  const auto taken = entries.take({key, hash, bytes, static_cast<std::uint32_t>(note_bytes)}, region_->process(),
                                  [this](std::uint64_t evicted) { count(&Counts::evicted, evicted); });
  if (!taken) {
    region_->report_obstacle();
    return {};
  }
  return {*this, *taken, entries.bytes_of(*taken), entries.note_of(*taken)};
}

// Held before others can see it, so that no process makes room of it.
ChunkTier::Hold SharedCache::publish(std::uint32_t entry) noexcept {
  SharedEntries& entries = region_->entries();
  region_->hold(entry);
  entries.set_whole(entry);
  count(&Counts::kept, entries.bytes_of(entry).size());
  return {*this, entry, entries.state_of(entry).word(), entries.bytes_of(entry), entries.note_of(entry)};
}

// Without the lock its bytes are free when one looks for room.
void SharedCache::discard(std::uint32_t entry) noexcept {
  region_->entries().set_abandoned(entry);
  const SharedRegion::Access access(*region_, SharedRegion::Access::Wait::no);
  if (access && region_->entries().state_of(entry).tag == Tag::abandoned) region_->entries().drop(entry);
}

bool SharedCache::is_intact(std::uint32_t entry, std::uint64_t version) const noexcept {
  return region_->entries().is_still(entry, EntryState::of(version));
}

void SharedCache::count(Count Counts::* which, std::uint64_t bytes) noexcept {
  const Lock lock(mutex_);
  ++(counts_.*which).chunks;
  (counts_.*which).bytes += static_cast<std::int64_t>(bytes);
}

ChunkTier::Counts SharedCache::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

void SharedCache::reset_counts() {
  const Lock lock(mutex_);
  counts_ = {};
}

}  // namespace damacy
