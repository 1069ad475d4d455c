#include "damacy/cache/chunk_cache.h"

#include <algorithm>
#include <array>

#include "damacy/core/prefetch.h"

namespace damacy {
namespace {

constexpr std::size_t kMostEntriesLookedAt = 64;
constexpr std::size_t kPrefetchedAtOnce = 32;  // keys: processors fetch about so many lines at a time

HostBuffer memory_for(std::uint64_t bytes, const std::shared_ptr<Alloc>& alloc) {
  return bytes == 0 ? HostBuffer() : HostBuffer(alloc, bytes);
}

constexpr std::uint64_t whole_pages(std::uint64_t bytes) noexcept {
  return bytes / Alloc::kAlignment * Alloc::kAlignment;
}

}  // namespace

CacheSizes cache_sizes(std::uint64_t bytes) noexcept {
  CacheSizes sizes;
  sizes.entries = static_cast<std::size_t>(std::clamp<std::uint64_t>(
      bytes / CacheSizes::kBytesAnEntry, CacheSizes::kLeastEntries, CacheSizes::kMostEntries));
  sizes.index = sizes.entries * sizeof(ChunkCache::Entry) + KeyIndex::bytes_of(sizes.entries) +
                ReusePolicy::bytes_of(CacheSizes::kRememberedAnEntry * sizes.entries) +
                CacheSpace::bytes_of(sizes.entries);
  sizes.space = whole_pages(bytes - std::min(bytes, sizes.index));
  return sizes;
}

CacheSizes cache_sizes_with_notes(std::uint64_t bytes, std::uint64_t padding) noexcept {
  CacheSizes sizes = cache_sizes(bytes);
  sizes.index += CacheSpace::bytes_of(sizes.entries);
  sizes.notes = std::max<std::uint64_t>(whole_pages(bytes / CacheSizes::kShareOfNotes), Alloc::kAlignment);
  sizes.padding = std::min(bytes, padding);
  sizes.space = whole_pages(bytes - sizes.padding);
  return sizes;
}

ChunkCache::ChunkCache(const CacheSizes& sizes, const std::shared_ptr<Alloc>& alloc)
    : sizes_(sizes),
      memory_(memory_for(sizes_.space + sizes_.padding, alloc)),
      note_memory_(memory_for(sizes_.notes, std::make_shared<PageAlloc>())),
      entries_(sizes_.entries),
      index_(sizes_.entries),
      policy_(CacheSizes::kRememberedAnEntry * sizes_.entries),
      space_(sizes_.space, sizes_.entries),
      notes_(sizes_.notes, sizes_.notes == 0 ? 0 : sizes_.entries) {
  const Lock lock(mutex_);
  for (std::size_t e = entries_.size(); e-- > 0;) {
    entries_[e].next_unused = unused_;
    unused_ = static_cast<std::uint32_t>(e);
  }
}

ChunkCache::Found ChunkCache::find(const ChunkKey& key, std::uint64_t bytes) {
  const std::uint64_t hash = hash_of(key);
  const Lock lock(mutex_);
  const auto found = find_entry(key, hash);
  if (found && entries_[*found].is_whole && is_size_of(entries_[*found].bytes, bytes)) {
    Entry& entry = entries_[*found];
    entry.last_used = policy_.hit(entry.last_used);
    counts_.hits.add(entry.bytes);
    entry.holds.fetch_add(1, std::memory_order_relaxed);
    return {Hold(entry.holds, bytes_of(entry), note_of(entry))};
  }
  counts_.misses.add(bytes);
  policy_.miss(hash, used_);
  const bool fits = bytes <= sizes_.largest_chunk();
  return {{}, fits && (space_.free_bytes() >= bytes || some_entry_may_go())};
}

// First the places of all, then their entries.
void ChunkCache::prefetch(std::span<const ChunkKey> keys) const {
  std::array<std::uint64_t, kPrefetchedAtOnce> hashes;
  const Lock lock(mutex_);
  const Entry* const entries = entries_.data();
  for (; !keys.empty(); keys = keys.subspan(std::min(keys.size(), hashes.size()))) {
    const std::size_t count = std::min(keys.size(), hashes.size());
    for (std::size_t i = 0; i < count; ++i) index_.prefetch(hashes[i] = hash_of(keys[i]));
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = index_.first(hashes[i]);
      if (number) prefetch_for_reading(&entries[*number]);
    }
  }
}

// One entry is asked, each time another.
bool ChunkCache::some_entry_may_go() noexcept {
  const std::uint32_t number = entry_hand_;
  entry_hand_ = (entry_hand_ + 1) % static_cast<std::uint32_t>(entries_.size());
  return entries_[number].is_used && may_go(number);
}

ChunkCache::Filling ChunkCache::reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes) {
  if (bytes == 0 || bytes > sizes_.largest_chunk() || note_bytes > sizes_.notes / CacheSizes::kLargestShare) return {};
  const std::uint64_t hash = hash_of(key);
  const Lock lock(mutex_);
  if (find_entry(key, hash) || !take_entry()) return {};
  const std::uint32_t number = std::exchange(unused_, entries_[unused_].next_unused);
  Entry& entry = entries_[number];
  entry.bytes = bytes;
  entry.note_bytes = static_cast<std::uint32_t>(note_bytes);
  if (!take_space(entry, number)) {
    entry.next_unused = std::exchange(unused_, number);
    return {};
  }
  entry.key = key;
  entry.hash = hash;
  entry.last_used = policy_.now();
  entry.is_used = true;
  entry.is_whole = false;
  ++used_;
  index_.insert(hash, number);
  if (pages_ahead_) pages_ahead_->written_to(entry.offset + bytes);
  return {*this, number, bytes_of(entry), note_of(entry)};
}

ChunkCache::Hold ChunkCache::publish(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  Entry& entry = entries_[number];
  entry.is_whole = true;
  counts_.kept.add(entry.bytes);
  entry.holds.fetch_add(1, std::memory_order_relaxed);
  return {entry.holds, bytes_of(entry), note_of(entry)};
}

void ChunkCache::discard(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  space_.give(entries_[number].piece);
  give_note(entries_[number]);
  drop_entry(number);
}

void ChunkCache::give_note(Entry& entry) noexcept {
  if (std::exchange(entry.note_bytes, 0) > 0) notes_.give(entry.note);
}

std::span<std::byte> ChunkCache::bytes_of(const Entry& entry) const noexcept {
  return memory_.bytes().subspan(entry.offset, entry.bytes);
}

std::span<std::byte> ChunkCache::note_of(const Entry& entry) const noexcept {
  if (entry.note_bytes == 0) return {};
  return note_memory_.bytes().subspan(entry.note_offset, entry.note_bytes);
}

std::optional<std::uint32_t> ChunkCache::find_entry(const ChunkKey& key, std::uint64_t hash) const {
  const std::span<const Entry> entries = entries_;
  return index_.find(hash, [&](std::uint32_t number) { return entries[number].key == key; });
}

// The last release of a hold comes before what is written next.
bool ChunkCache::may_go(std::uint32_t number) const noexcept {
  const Entry& entry = entries_[number];
  return entry.is_whole && entry.holds.load(std::memory_order_acquire) == 0 && policy_.may_go(entry.last_used);
}

// Chunks smaller than kBytesAnEntry use all entries before they use all space.
bool ChunkCache::take_entry() noexcept {
  for (std::size_t step = 0; unused_ == kNone && step < kMostEntriesLookedAt; ++step) {
    const std::uint32_t number = entry_hand_;
    entry_hand_ = (entry_hand_ + 1) % static_cast<std::uint32_t>(entries_.size());
    if (!entries_[number].is_used || !may_go(number)) continue;
    space_.give(entries_[number].piece);
    give_note(entries_[number]);
    evict(number);
  }
  return unused_ != kNone;
}

// An entry that goes gives its piece of the other space, too.
bool ChunkCache::take_space(Entry& entry, std::uint32_t owner) {
  const auto may_go_now = [&](std::uint32_t number) DAMACY_REQUIRES(mutex_) { return may_go(number); };
  const auto piece = space_.take(entry.bytes, owner, may_go_now, [&](std::uint32_t number) DAMACY_REQUIRES(mutex_) {
    give_note(entries_[number]);
    evict(number);
  });
  if (!piece) return false;
  entry.piece = *piece;
  entry.offset = space_.offset_of(*piece);
  if (entry.note_bytes == 0) return true;
  const auto note = notes_.take(entry.note_bytes, owner, may_go_now, [&](std::uint32_t number) DAMACY_REQUIRES(mutex_) {
    space_.give(entries_[number].piece);
    entries_[number].note_bytes = 0;
    evict(number);
  });
  if (!note) {
    space_.give(entry.piece);
    return false;
  }
  entry.note = *note;
  entry.note_offset = notes_.offset_of(*note);
  return true;
}

void ChunkCache::evict(std::uint32_t number) noexcept {
  Entry& entry = entries_[number];
  counts_.evicted.add(entry.bytes);
  policy_.evicted(entry.hash, entry.last_used);
  drop_entry(number);
}

void ChunkCache::drop_entry(std::uint32_t number) noexcept {
  Entry& entry = entries_[number];
  --used_;
  index_.erase(entry.hash, number);
  entry.is_used = entry.is_whole = false;
  entry.next_unused = unused_;
  unused_ = number;
}

ChunkCache::Counts ChunkCache::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

void ChunkCache::reset_counts() {
  const Lock lock(mutex_);
  counts_ = {};
}

std::uint64_t ChunkCache::held_bytes() const {
  const Lock lock(mutex_);
  return space_.size() - space_.free_bytes();
}

}  // namespace damacy
