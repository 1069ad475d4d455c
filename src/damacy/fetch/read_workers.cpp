#include "damacy/fetch/read_workers.h"

#include <algorithm>

#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

constexpr std::size_t kCommonBytes = std::size_t{256} << 20;  // each of staging and scratch; resident where used
constexpr auto kPatience = std::chrono::seconds(2);           // of a stop
constexpr std::size_t kSharers = 4;                           // chunks that fit the common memory at once, at least

}  // namespace

ReadMemory::ReadMemory(std::size_t staging_bytes, std::size_t scratch_bytes)
    : staging(std::make_shared<PageAlloc>(), staging_bytes), scratch(std::make_shared<PageAlloc>(), scratch_bytes) {}

void ReadCounters::reset() noexcept {
  for (auto* counter :
       {&reads, &items, &chunks_decoded, &chunks_missing, &stored_bytes, &decoded_bytes, &index_hits, &index_misses})
    counter->store(0);
}

ReadWorkers::ReadWorkers(std::size_t threads, IndexCache indices, std::shared_ptr<const Clock> clock)
    : memory_(std::make_shared<ReadMemory>(kCommonBytes, kCommonBytes)),
      indices_(std::move(indices)),
      contexts_(std::clamp<std::size_t>(threads, 1, Limits::threads)),
      engine_(make_thread_engine(contexts_.size(), contexts_.size(), std::move(clock))) {}

void ReadWorkers::abandon_overdue() noexcept {
  engine_->abandon_overdue(std::chrono::seconds(Limits::storage_operation_s), false);
}

// A hung read keeps the memory that it may still write to.
void ReadWorkers::stop() noexcept {
  engine_->stop(std::chrono::steady_clock::now() + kPatience, nullptr);
}

std::shared_ptr<ReadMemory> ReadWorkers::memory_for(const Array& array) {
  const auto page = [](std::uint64_t bytes) {
    return (bytes + Arena::kPieceAlignment) & ~(Arena::kPieceAlignment - 1);
  };
  const std::uint64_t packed =
      page(std::max<std::uint64_t>(array.max_encoded_chunk_bytes(), Limits::merged_read_bytes));
  const std::uint64_t decoded = page(array.metadata().chunk_bytes());
  if (packed * kSharers <= kCommonBytes && decoded * kSharers <= kCommonBytes) {
    const Lock lock(memory_mutex_);
    if (memory_->staging.lendable() < packed * kSharers)
      memory_ = std::make_shared<ReadMemory>(kCommonBytes, kCommonBytes);
    return memory_;
  }
  const std::uint64_t sharers = std::min<std::uint64_t>(contexts_.size(), kSharers);
  return std::make_shared<ReadMemory>(packed * sharers, decoded * sharers);
}

}  // namespace damacy
