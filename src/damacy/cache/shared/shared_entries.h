// The index of a shared region, in the region: which chunk lies where, what may make room, and which process uses what.
// A process may die after any instruction. The states of entries are therefore the truth, changed by one store each;
// all else is made from them again by rebuild(). Knows keys, sizes and numbers of processes; takes no lock: one thread
// of one process at a time, except for what is atomic.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "damacy/cache/cache_space.h"
#include "damacy/cache/chunk_key.h"
#include "damacy/cache/reuse_policy.h"

namespace damacy {

// How the bytes of a region are divided.
struct SharedSizes {
  static constexpr std::uint64_t kHead = 4096;
  static constexpr std::uint64_t kPadding = 4096;  // behind the last chunk, may be read
  static constexpr std::uint64_t kLeastBytes = 1 << 20;
  static constexpr std::uint64_t kLargestShare = 8;  // a chunk may take an 8th of the space

  std::uint64_t bytes = 0;
  std::size_t entries = 0, buckets = 0, remembered = 0;
  std::uint64_t entries_at = 0, buckets_at = 0, policy_at = 0, space_at = 0;
  std::uint64_t chunks_at = 0, chunk_bytes = 0;
  std::uint64_t largest_chunk() const noexcept { return chunk_bytes / kLargestShare; }
};
// Of kLeastBytes or more.
[[nodiscard]] SharedSizes shared_sizes(std::uint64_t bytes) noexcept;

// What an entry is, in one word: a tag, the process that fills it, and a version that no other use of the entry has.
struct EntryState {
  enum class Tag : std::uint8_t { free, filling, whole, abandoned };
  Tag tag;
  std::uint8_t process;
  std::uint64_t version;
  constexpr std::uint64_t word() const noexcept {
    return version << 16 | static_cast<std::uint64_t>(process) << 8 | static_cast<std::uint64_t>(tag);
  }
  static constexpr EntryState of(std::uint64_t word) noexcept {
    return {static_cast<Tag>(word & 3), static_cast<std::uint8_t>(word >> 8), word >> 16};
  }
};

class SharedEntries {
 public:
  using Number = std::uint32_t;
  using Tag = EntryState::Tag;

  // Memory of `sizes.bytes`; clear() comes first where it is new.
  SharedEntries(std::span<std::byte> memory, const SharedSizes& sizes);
  void clear() noexcept;

  std::optional<Number> find(const ChunkKey& key, std::uint64_t hash) const noexcept;
  // An entry that `process` fills. Empty if there is no room at once. Calls `evicted` with the bytes of each that went.
  struct Wanted {
    const ChunkKey& key;
    std::uint64_t hash, bytes;
    std::uint32_t note_bytes;
  };
  template <class Evicted>
  std::optional<Number> take(const Wanted& wanted, std::uint8_t process, Evicted evicted) {
    const std::function<void(std::uint64_t)> call = evicted;
    return take_one(wanted, process, call);
  }
  void drop(Number number) noexcept;  // a whole or abandoned one that is unused, or one whose process is dead
  bool may_go(Number number) const noexcept;
  bool some_may_go() noexcept;  // one is asked, each time another
  // What a dead process held and filled.
  void forget(std::uint8_t process) noexcept;
  // After a process died in the middle of a change. Throws std::bad_alloc.
  void rebuild();

  // Atomic: without the lock.
  EntryState state_of(Number number) const noexcept;
  // After bytes of the entry were read: whether they were its bytes.
  bool is_still(Number number, EntryState state) const noexcept;
  void set_whole(Number number) noexcept;      // of the process that fills it
  void set_abandoned(Number number) noexcept;  // the same
  void pin(Number number, std::uint8_t process) noexcept;
  void unpin(Number number, std::uint8_t process) noexcept;

  // The memory of an entry that is used; a note lies behind the bytes.
  std::span<std::byte> bytes_of(Number number) const noexcept;
  std::span<std::byte> note_of(Number number) const noexcept;
  ReusePolicy& policy() noexcept { return policy_; }
  void touch(Number number) noexcept;  // a hit
  std::size_t used() const noexcept { return head().used; }
  std::size_t in_use() const noexcept;  // entries that a process holds or fills; looks at all of them
  std::uint64_t free_bytes() const noexcept { return space_.free_bytes(); }
  std::size_t size() const noexcept { return sizes_.entries; }
  std::uint64_t rebuilds() const noexcept { return head().rebuilds; }

 private:
  static constexpr Number kNone = 0;  // links are numbers + 1, so that zero bytes are none
  struct Head {
    std::uint32_t fresh;   // entries from here on were never used
    std::uint32_t unused;  // a list
    std::uint32_t hand;
    std::uint64_t used;
    std::uint64_t rebuilds;
  };
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> state;
    std::atomic<std::uint64_t> pins;  // a bit for each process
    ChunkKey key;
    std::uint64_t hash, bytes, offset;
    std::uint32_t note_bytes;
    CacheSpace::Piece piece;
    std::uint32_t next;  // in its bucket, or in the list of unused ones
    ReusePolicy::Time last_used;
  };
  static_assert(sizeof(Entry) == 128);
  friend SharedSizes shared_sizes(std::uint64_t) noexcept;

  std::optional<Number> take_one(const Wanted& wanted, std::uint8_t process,
                                 const std::function<void(std::uint64_t)>& evicted);
  bool take_entry(const std::function<void(std::uint64_t)>& evicted) noexcept;
  Head& head() const noexcept { return *reinterpret_cast<Head*>(memory_.data() + kHeadAt); }
  std::uint32_t& bucket_of(std::uint64_t hash) const noexcept { return buckets_[hash & (buckets_.size() - 1)]; }
  void unlink(Number number) noexcept;
  void free_entry(Number number) noexcept;  // its piece is gone
  std::uint64_t whole_bytes(const Entry& entry) const noexcept;

  static constexpr std::uint64_t kHeadAt = 2048;  // in the region's head; what is before belongs to the cache
  const SharedSizes sizes_;
  const std::span<std::byte> memory_;
  const std::span<Entry> entries_;
  const std::span<std::uint32_t> buckets_;
  ReusePolicy policy_;
  CacheSpace space_;
};

}  // namespace damacy
