// Keeps bytes of chunks in memory of a fixed size, which is taken when it is made: an index, a policy and a space under
// one lock, which is held for a look-up or a choice, not while bytes are written or read. The memory may be a device's;
// notes of chunks are in host memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "damacy/cache/cache_space.h"
#include "damacy/cache/chunk_key.h"
#include "damacy/cache/chunk_tier.h"
#include "damacy/cache/key_index.h"
#include "damacy/cache/pages_ahead.h"
#include "damacy/cache/reuse_policy.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"

namespace damacy {

// How the bytes of a cache are divided.
struct CacheSizes {
  static constexpr std::uint64_t kBytesAnEntry = 8 << 10;  // chunks may be smaller; then the index limits their number
  static constexpr std::size_t kLeastEntries = 16;
  static constexpr std::size_t kMostEntries = 4 << 20;
  static constexpr std::size_t kRememberedAnEntry = 4;  // chunks that were missed
  static constexpr std::uint64_t kLargestShare = 8;     // a chunk may take an 8th
  static constexpr std::uint64_t kShareOfNotes = 16;    // a byte of notes for so many of chunks

  std::uint64_t space = 0;  // for chunks
  std::uint64_t index = 0;  // for the records of entries, and what the policy remembers
  std::uint64_t notes = 0;
  std::uint64_t padding = 0;  // memory behind the last chunk that may be read
  std::size_t entries = 0;
  std::uint64_t largest_chunk() const noexcept { return space / kLargestShare; }
};
// Both together are at most `bytes`, unless that is too little for the least index.
[[nodiscard]] CacheSizes cache_sizes(std::uint64_t bytes) noexcept;
// All of `bytes` is for chunks and `padding`; index and notes come on top.
[[nodiscard]] CacheSizes cache_sizes_with_notes(std::uint64_t bytes, std::uint64_t padding) noexcept;

class ChunkCache final : public ChunkTier {
 public:
  // Memory for chunks comes from `alloc`, that of index and notes does not. Throws Error(oom).
  ChunkCache(const CacheSizes& sizes, const std::shared_ptr<Alloc>& alloc);
  ChunkCache(std::uint64_t bytes, const std::shared_ptr<Alloc>& alloc) : ChunkCache(cache_sizes(bytes), alloc) {}
  // The memory is pages of the system, which are cleared shortly before they are used. Before the first use.
  void clear_pages_ahead() { pages_ahead_.emplace(memory_.bytes()); }
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  [[nodiscard]] Found find(const ChunkKey& key, std::uint64_t bytes) override;
  void prefetch(std::span<const ChunkKey> keys) const override;
  [[nodiscard]] Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes = 0) override;

  Counts counts() const override;
  void reset_counts() override;
  std::uint64_t held_bytes() const;  // by entries, visible or not
  const CacheSizes& sizes() const noexcept { return sizes_; }

 private:
  // All that a look-up needs is in the first line of a processor's cache.
  struct alignas(128) Entry {
    ChunkKey key;
    std::uint64_t bytes = 0, offset = 0;  // in the memory of chunks
    std::uint64_t note_offset = 0;        // in that of notes
    ReusePolicy::Time last_used = 0;
    std::uint32_t note_bytes = 0;  // 0: no note
    std::atomic<std::uint32_t> holds{0};
    bool is_used = false, is_whole = false;
    alignas(64) std::uint64_t hash = 0;
    CacheSpace::Piece piece = 0, note = 0;  // of these
    std::uint32_t next_unused = kNone;
  };
  static_assert(sizeof(Entry) == 128);
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  friend CacheSizes cache_sizes(std::uint64_t) noexcept;

  Hold publish(std::uint32_t entry) noexcept override;
  void discard(std::uint32_t entry) noexcept override;
  std::span<std::byte> bytes_of(const Entry& entry) const noexcept DAMACY_REQUIRES(mutex_);
  std::optional<std::uint32_t> find_entry(const ChunkKey& key, std::uint64_t hash) const DAMACY_REQUIRES(mutex_);
  bool may_go(std::uint32_t entry) const noexcept DAMACY_REQUIRES(mutex_);
  bool some_entry_may_go() noexcept DAMACY_REQUIRES(mutex_);
  bool take_entry() noexcept DAMACY_REQUIRES(mutex_);
  bool take_space(Entry& entry, std::uint32_t number) DAMACY_REQUIRES(mutex_);
  void give_note(Entry& entry) noexcept DAMACY_REQUIRES(mutex_);
  std::span<std::byte> note_of(const Entry& entry) const noexcept DAMACY_REQUIRES(mutex_);
  void evict(std::uint32_t entry) noexcept DAMACY_REQUIRES(mutex_);       // its pieces are gone
  void drop_entry(std::uint32_t entry) noexcept DAMACY_REQUIRES(mutex_);  // the same, not counted

  const CacheSizes sizes_;
  const HostBuffer memory_;
  const HostBuffer note_memory_;
  std::optional<PagesAhead> pages_ahead_;  // of memory_
  mutable Mutex mutex_;
  std::vector<Entry> entries_ DAMACY_GUARDED_BY(mutex_);  // holds are released without it
  KeyIndex index_ DAMACY_GUARDED_BY(mutex_);
  ReusePolicy policy_ DAMACY_GUARDED_BY(mutex_);
  CacheSpace space_ DAMACY_GUARDED_BY(mutex_);
  CacheSpace notes_ DAMACY_GUARDED_BY(mutex_);
  Counts counts_ DAMACY_GUARDED_BY(mutex_);
  std::uint32_t unused_ DAMACY_GUARDED_BY(mutex_) = kNone;
  std::size_t used_ DAMACY_GUARDED_BY(mutex_) = 0;  // entries
  std::uint32_t entry_hand_ DAMACY_GUARDED_BY(mutex_) = 0;
};

}  // namespace damacy
