#include "damacy/fetch/later_chunks.h"

#include <algorithm>
#include <utility>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"

namespace damacy {
namespace {

ChunkKey without_stamp(const ChunkKey& key) {
  return {key.array, {}, key.chunk};
}

void add(ChunkTier::Count& count, std::uint64_t bytes) {
  ++count.chunks;
  count.bytes += static_cast<std::int64_t>(bytes);
}

}  // namespace

class LaterChunks::Wants {
 public:
  explicit Wants(LaterChunks& tier) : tier_(tier) {}
  ~Wants() { tier_.end(chunks); }
  Wants(const Wants&) = delete;
  Wants& operator=(const Wants&) = delete;
  std::vector<ChunkKey> chunks;

 private:
  LaterChunks& tier_;
};

std::shared_ptr<const void> LaterChunks::want(const std::vector<ChunkKey>& chunks) {
  auto wants = std::make_shared<Wants>(*this);
  wants->chunks.reserve(chunks.size());
  const Lock lock(mutex_);
  for (const ChunkKey& chunk : chunks) {
    if (wanted_count_ >= kMostWanted) break;
    const ChunkKey key = without_stamp(chunk);
    ++wanted_[key].batches;
    ++wanted_count_;
    wants->chunks.push_back(key);
  }
  return wants;
}

bool LaterChunks::is_any_wanted() const {
  const Lock lock(mutex_);
  return wanted_count_ > 0;
}

void LaterChunks::end(const std::vector<ChunkKey>& chunks) noexcept {
  const Lock lock(mutex_);
  wanted_count_ -= chunks.size();
  for (const ChunkKey& chunk : chunks) {
    const auto at = wanted_.find(chunk);
    if (--at->second.batches > 0) continue;
    if (at->second.entry != kNone) {
      entries_[at->second.entry].is_wanted = false;
      give_if_unneeded(at->second.entry);
    }
    wanted_.erase(at);
  }
}

ChunkTier::Found LaterChunks::find(const ChunkKey& key, std::uint64_t bytes) {
  const Lock lock(mutex_);
  const auto at = wanted_.find(without_stamp(key));
  if (at == wanted_.end()) return {};
  if (at->second.entry != kNone) {
    Entry& entry = entries_[at->second.entry];
    if (entry.is_whole && entry.key == key && is_size_of(entry.bytes, bytes)) {
      ++entry.holds;
      add(counts_.hits, entry.bytes);
      return {Hold(*this, at->second.entry, 0, entry.memory.bytes().first(entry.bytes), {}), true};
    }
  }
  add(counts_.misses, bytes);
  return {std::nullopt, at->second.batches > 1};
}

ChunkTier::Filling LaterChunks::reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t) {
  const Lock lock(mutex_);
  const auto at = wanted_.find(without_stamp(key));
  if (at == wanted_.end() || at->second.entry != kNone) return {};
  std::optional<std::uint32_t> number;
  const auto failure = failure_of([&]() DAMACY_REQUIRES(mutex_) { number = take_entry(bytes); });
  if (failure || !number) return {};
  at->second.entry = *number;
  Entry& entry = entries_[*number];
  entry.key = key;
  entry.bytes = bytes;
  entry.is_wanted = true;
  return {*this, *number, entry.memory.bytes().first(bytes), {}};
}

ChunkTier::Counts LaterChunks::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

void LaterChunks::reset_counts() {
  const Lock lock(mutex_);
  counts_ = {};
}

ChunkTier::Hold LaterChunks::publish(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  Entry& entry = entries_[number];
  entry.is_whole = true;
  entry.holds = 1;
  add(counts_.kept, entry.bytes);
  return {*this, number, 0, entry.memory.bytes().first(entry.bytes), {}};
}

void LaterChunks::discard(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  if (entries_[number].is_wanted) wanted_.find(without_stamp(entries_[number].key))->second.entry = kNone;
  give(number);
}

void LaterChunks::release(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  --entries_[number].holds;
  give_if_unneeded(number);
}

template <class Fits>
std::optional<std::uint32_t> LaterChunks::take_unused(Fits fits) {
  std::uint32_t* link = &unused_;
  while (*link != kNone && !fits(entries_[*link])) link = &entries_[*link].next_unused;
  if (*link == kNone) return std::nullopt;
  const std::uint32_t found = *link;
  *link = std::exchange(entries_[found].next_unused, kNone);
  return found;
}

// With memory of that size that is not used, or with more memory, for which that of other sizes is freed.
std::optional<std::uint32_t> LaterChunks::take_entry(std::uint64_t bytes) {
  const auto size = round_up<std::uint64_t>(std::max<std::uint64_t>(bytes, 1), Alloc::kAlignment);
  if (const auto found = take_unused([&](const Entry& entry) { return entry.memory.size() == size; })) return found;
  if (size > most_) return std::nullopt;
  for (std::uint32_t next = unused_; next != kNone && taken_ > most_ - size; next = entries_[next].next_unused)
    taken_ -= std::exchange(entries_[next].memory, HostBuffer()).size();
  if (taken_ > most_ - size) return std::nullopt;
  HostBuffer memory(alloc_, size);
  auto number = take_unused([](const Entry& entry) { return entry.memory.size() == 0; });
  if (!number) {
    number = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
  }
  entries_[*number].memory = std::move(memory);
  taken_ += size;
  return number;
}

void LaterChunks::give_if_unneeded(std::uint32_t number) noexcept {
  const Entry& entry = entries_[number];
  if (!entry.is_whole || entry.is_wanted || entry.holds > 0) return;
  add(counts_.evicted, entry.bytes);
  give(number);
}

void LaterChunks::give(std::uint32_t number) noexcept {
  Entry& entry = entries_[number];
  entry.is_whole = entry.is_wanted = false;
  entry.next_unused = std::exchange(unused_, number);
}

}  // namespace damacy
