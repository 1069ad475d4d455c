#include "damacy/single/selection_readers.h"

#include <algorithm>
#include <chrono>

#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/zarr/shard.h"

namespace damacy {
namespace {

constexpr std::size_t kCommonBytes = std::size_t{256} << 20;  // each of staging and scratch; resident where used

ThreadCounts counts_of(std::size_t threads) {
  ThreadCounts counts;
  counts.readers = counts.readers_at_once = threads;
  counts.blocking = 1;
  return counts;
}

}  // namespace

std::int64_t system_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

ReadMemory::ReadMemory(std::size_t staging_bytes, std::size_t scratch_bytes)
    : staging(std::make_shared<PageAlloc>(), staging_bytes), scratch(std::make_shared<PageAlloc>(), scratch_bytes) {}

void ReadCounters::reset() noexcept {
  for (auto* counter : {&reads, &items, &chunks_decoded, &chunks_missing, &stored_bytes, &decoded_bytes, &index_hits,
                        &index_misses, &cache_hits, &cache_misses})
    counter->store(0);
}

ShardIndex SelectionReaders::index_of(const Array& array, Object& object, const std::string& name) {
  const IndexCache::Origin origin{object.stamp(), array.id()};
  if (auto known = indices_.find(name, origin)) {
    ++counters_.index_hits;
    return *known;
  }
  ++counters_.index_misses;
  const std::int64_t now = system_ns();
  ShardIndex index = read_shard_index(array, object);
  indices_.keep(name, origin, now, index);
  return index;
}

SelectionReaders::SelectionReaders(std::size_t threads, IndexCache indices, const std::shared_ptr<const Clock>& clock)
    : memory_(std::make_shared<ReadMemory>(kCommonBytes, kCommonBytes)),
      indices_(std::move(indices)),
      readers_(counts_of(std::clamp<std::size_t>(threads, 1, Limits::threads)), clock) {}

std::shared_ptr<ReadMemory> SelectionReaders::memory_for(const Array& array, std::size_t at_once) {
  const auto page = [](std::uint64_t bytes) {
    return (bytes + Arena::kPieceAlignment) & ~(Arena::kPieceAlignment - 1);
  };
  const std::uint64_t packed =
      page(std::max<std::uint64_t>(array.max_encoded_chunk_bytes(), Limits::merged_read_bytes));
  const std::uint64_t decoded = page(array.metadata().chunk_bytes());
  if (packed * at_once <= kCommonBytes && decoded * at_once <= kCommonBytes) {
    const Lock lock(memory_mutex_);
    if (memory_->staging.lendable() < packed * at_once)
      memory_ = std::make_shared<ReadMemory>(kCommonBytes, kCommonBytes);
    return memory_;
  }
  const std::uint64_t sharers = std::min<std::uint64_t>(readers_.contexts().size(), at_once);
  return std::make_shared<ReadMemory>(packed * sharers, decoded * sharers);
}

}  // namespace damacy
