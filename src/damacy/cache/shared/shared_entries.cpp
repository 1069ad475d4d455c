#include "damacy/cache/shared/shared_entries.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "damacy/core/checked.h"

namespace damacy {
namespace {

constexpr std::size_t kMostLookedAt = 64;
constexpr std::uint64_t kBytesAnEntry = 8 << 10;
constexpr std::size_t kLeastEntries = 16, kMostEntries = 4 << 20;
constexpr std::size_t kRememberedAnEntry = 4;
constexpr std::uint64_t kPage = 4096;

template <class T>
std::span<T> records(std::span<std::byte> memory, std::uint64_t at, std::size_t count) {
  return {reinterpret_cast<T*>(memory.data() + at), count};
}

}  // namespace

SharedSizes shared_sizes(std::uint64_t bytes) noexcept {
  SharedSizes sizes;
  sizes.bytes = bytes;
  sizes.entries =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes / kBytesAnEntry, kLeastEntries, kMostEntries));
  sizes.buckets = std::bit_ceil(sizes.entries);
  sizes.remembered = kRememberedAnEntry * sizes.entries;
  sizes.entries_at = SharedSizes::kHead;
  sizes.buckets_at = sizes.entries_at + sizes.entries * sizeof(SharedEntries::Entry);
  sizes.policy_at = round_up<std::uint64_t>(sizes.buckets_at + sizes.buckets * sizeof(std::uint32_t), kPage);
  sizes.space_at = sizes.policy_at + ReusePolicy::bytes_of(sizes.remembered);
  sizes.chunks_at = round_up<std::uint64_t>(sizes.space_at + CacheSpace::bytes_of(sizes.entries), kPage);
  sizes.chunk_bytes = (bytes - SharedSizes::kPadding - sizes.chunks_at) / kPage * kPage;
  return sizes;
}

SharedEntries::SharedEntries(std::span<std::byte> memory, const SharedSizes& sizes)
    : sizes_(sizes),
      memory_(memory),
      entries_(records<Entry>(memory, sizes.entries_at, sizes.entries)),
      buckets_(records<std::uint32_t>(memory, sizes.buckets_at, sizes.buckets)),
      policy_(memory.subspan(sizes.policy_at, ReusePolicy::bytes_of(sizes.remembered)), sizes.remembered),
      space_(memory.subspan(sizes.space_at, CacheSpace::bytes_of(sizes.entries)), sizes.entries) {}

void SharedEntries::clear() noexcept {
  space_.clear(sizes_.chunk_bytes);
}

std::optional<SharedEntries::Number> SharedEntries::find(const ChunkKey& key, std::uint64_t hash) const noexcept {
  for (std::uint32_t at = bucket_of(hash); at != kNone; at = entries_[at - 1].next)
    if (entries_[at - 1].hash == hash && entries_[at - 1].key == key) return at - 1;
  return {};
}

EntryState SharedEntries::state_of(Number number) const noexcept {
  return EntryState::of(entries_[number].state.load(std::memory_order_acquire));
}

// Adds nothing: a change of the word is ordered after the reads before it, which a load is not.
bool SharedEntries::is_still(Number number, EntryState state) const noexcept {
  return entries_[number].state.fetch_add(0, std::memory_order_acq_rel) == state.word();
}

void SharedEntries::set_whole(Number number) noexcept {
  EntryState state = state_of(number);
  state.tag = Tag::whole;
  entries_[number].state.store(state.word(), std::memory_order_release);
}

void SharedEntries::set_abandoned(Number number) noexcept {
  EntryState state = state_of(number);
  state.tag = Tag::abandoned;
  entries_[number].state.store(state.word(), std::memory_order_release);
}

// The lock is held by every process that pins or evicts. A process also pins what it fills, without the lock: that is
// not evicted.
void SharedEntries::pin(Number number, std::uint8_t process) noexcept {
  entries_[number].pins.fetch_or(std::uint64_t{1} << process, std::memory_order_relaxed);
}

void SharedEntries::unpin(Number number, std::uint8_t process) noexcept {
  entries_[number].pins.fetch_and(~(std::uint64_t{1} << process), std::memory_order_release);
}

std::uint64_t SharedEntries::whole_bytes(const Entry& entry) const noexcept {
  return round_up<std::uint64_t>(entry.bytes, CacheSpace::kAlignment) + entry.note_bytes;
}

std::span<std::byte> SharedEntries::bytes_of(Number number) const noexcept {
  return memory_.subspan(sizes_.chunks_at + entries_[number].offset, entries_[number].bytes);
}

std::span<std::byte> SharedEntries::note_of(Number number) const noexcept {
  const Entry& entry = entries_[number];
  const std::uint64_t behind = round_up<std::uint64_t>(entry.bytes, CacheSpace::kAlignment);
  return memory_.subspan(sizes_.chunks_at + entry.offset + behind, entry.note_bytes);
}

void SharedEntries::touch(Number number) noexcept {
  entries_[number].last_used = policy_.hit(entries_[number].last_used);
}

// The last use of an entry comes before what is written next.
bool SharedEntries::may_go(Number number) const noexcept {
  const Tag tag = state_of(number).tag;
  if (tag == Tag::free || tag == Tag::filling || entries_[number].pins.load(std::memory_order_acquire) != 0)
    return false;
  return tag == Tag::abandoned || policy_.may_go(entries_[number].last_used);
}

bool SharedEntries::some_may_go() noexcept {
  const Number number = head().hand;
  head().hand = (number + 1) % static_cast<std::uint32_t>(sizes_.entries);
  return may_go(number);
}

// Entries that were never used come before those that are looked for one by one.
bool SharedEntries::take_entry(const std::function<void(std::uint64_t)>& evicted) noexcept {
  if (head().unused != kNone) return true;
  if (head().fresh < sizes_.entries) {
    const std::uint32_t number = head().fresh++;
    entries_[number].next = head().unused;
    head().unused = number + 1;
    return true;
  }
  for (std::size_t step = 0; head().unused == kNone && step < kMostLookedAt; ++step) {
    const Number number = head().hand;
    head().hand = (number + 1) % static_cast<std::uint32_t>(sizes_.entries);
    if (!may_go(number)) continue;
    policy_.evicted(entries_[number].hash, entries_[number].last_used);
    evicted(entries_[number].bytes);
    drop(number);
  }
  return head().unused != kNone;
}

// An entry is free before its bytes belong to another one, and the state of the new one is stored when all else of it
// is written.
std::optional<SharedEntries::Number> SharedEntries::take_one(const Wanted& wanted, std::uint8_t process,
                                                             const std::function<void(std::uint64_t)>& evicted) {
  if (!take_entry(evicted)) return {};
  const Number number = head().unused - 1;
  Entry& entry = entries_[number];
  const std::uint32_t unused_after = entry.next;
  head().unused = unused_after;
  entry.bytes = wanted.bytes;
  entry.note_bytes = wanted.note_bytes;
  const auto piece = space_.take(
      whole_bytes(entry), number, [this](Number other) { return may_go(other); },
      [&](Number other) {
        if (state_of(other).tag == Tag::whole) {
          policy_.evicted(entries_[other].hash, entries_[other].last_used);
          evicted(entries_[other].bytes);
        }
        free_entry(other);
      });
  if (!piece) {
    entry.next = head().unused;
    head().unused = number + 1;
    return {};
  }
  entry.key = wanted.key;
  entry.hash = wanted.hash;
  entry.piece = *piece;
  entry.offset = space_.offset_of(*piece);
  entry.last_used = policy_.now();
  entry.pins.store(0, std::memory_order_relaxed);
  const std::uint64_t version = state_of(number).version + 1;
  entry.state.store(EntryState{Tag::filling, process, version}.word(), std::memory_order_release);
  entry.next = std::exchange(bucket_of(entry.hash), number + 1);
  ++head().used;
  return number;
}

void SharedEntries::unlink(Number number) noexcept {
  std::uint32_t* link = &bucket_of(entries_[number].hash);
  while (*link != number + 1) link = &entries_[*link - 1].next;
  *link = entries_[number].next;
}

void SharedEntries::free_entry(Number number) noexcept {
  Entry& entry = entries_[number];
  entry.state.store(EntryState{Tag::free, 0, state_of(number).version}.word(), std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // nothing of its next use is written before
  unlink(number);
  --head().used;
  entry.next = head().unused;
  head().unused = number + 1;
}

void SharedEntries::drop(Number number) noexcept {
  const CacheSpace::Piece piece = entries_[number].piece;
  free_entry(number);
  space_.give(piece);
}

void SharedEntries::forget(std::uint8_t process) noexcept {
  for (Number number = 0; number < head().fresh; ++number) {
    const EntryState state = state_of(number);
    unpin(number, process);
    if (state.tag == Tag::filling && state.process == process) drop(number);
  }
}

std::size_t SharedEntries::in_use() const noexcept {
  std::size_t count = 0;
  for (Number number = 0; number < head().fresh; ++number)
    count += state_of(number).tag == Tag::filling || entries_[number].pins.load() != 0 ? 1 : 0;
  return count;
}

void SharedEntries::rebuild() {
  ++head().rebuilds;
  const auto count = static_cast<Number>(std::min<std::size_t>(head().fresh, sizes_.entries));
  std::vector<Number> used;
  for (Number number = 0; number < count; ++number)
    if (state_of(number).tag != Tag::free) used.push_back(number);
  std::ranges::sort(used, {}, [this](Number number) { return entries_[number].offset; });
  std::ranges::fill(buckets_, kNone);
  space_.clear(sizes_.chunk_bytes);
  head().fresh = count;
  head().used = 0;
  head().unused = kNone;
  head().hand = 0;
  for (Number number = count; number-- > 0;) {
    if (state_of(number).tag != Tag::free) continue;
    entries_[number].next = std::exchange(head().unused, number + 1);
  }
  for (const Number number : used) {
    Entry& entry = entries_[number];
    const auto piece = space_.add(entry.offset, whole_bytes(entry), number);
    if (!piece) {  // no order of stores leads here
      entry.state.store(EntryState{Tag::free, 0, state_of(number).version}.word(), std::memory_order_release);
      entry.next = std::exchange(head().unused, number + 1);
      continue;
    }
    entry.piece = *piece;
    entry.next = std::exchange(bucket_of(entry.hash), number + 1);
    ++head().used;
  }
}

}  // namespace damacy
