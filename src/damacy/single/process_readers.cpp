#include "damacy/single/process_readers.h"

#include <algorithm>
#include <new>
#include <utility>

#include "damacy/cache/chunk_cache.h"
#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"

namespace damacy {

std::shared_ptr<SelectionReaders> ProcessReaders::with_threads(std::size_t threads) {
  threads = std::max<std::size_t>(threads, 1);
  const Lock lock(mutex_);
  auto& found = by_threads_[threads];
  if (!found) found = std::make_shared<SelectionReaders>(threads, indices_);
  return found;
}

std::vector<std::shared_ptr<SelectionReaders>> ProcessReaders::all() {
  const Lock lock(mutex_);
  std::vector<std::shared_ptr<SelectionReaders>> found;
  for (const auto& [threads, one] : by_threads_) found.push_back(one);
  return found;
}

std::shared_ptr<ChunkTier> ProcessReaders::cache_of(std::uint64_t bytes) {
  std::shared_ptr<ChunkTier> dropped;
  const Lock lock(cache_mutex_);
  return resized(bytes, dropped);
}

std::shared_ptr<ChunkTier> ProcessReaders::any_cache(const std::atomic<std::uint64_t>& setting) {
  std::shared_ptr<ChunkTier> dropped;
  const Lock lock(cache_mutex_);
  return cache_ ? cache_ : resized(setting, dropped);
}

void ProcessReaders::set_cache(std::atomic<std::uint64_t>& setting, std::uint64_t bytes) {
  std::shared_ptr<ChunkTier> dropped;
  const Lock lock(cache_mutex_);
  static_cast<void>(resized(bytes, dropped));
  setting = bytes;
}

std::shared_ptr<ChunkTier> ProcessReaders::resized(std::uint64_t bytes, std::shared_ptr<ChunkTier>& dropped) {
  if (bytes == cache_bytes_) return cache_;
  dropped = std::exchange(cache_, nullptr);
  cache_bytes_ = 0;
  try {
    if (bytes > 0) {
      const auto cache = std::make_shared<ChunkCache>(bytes, std::make_shared<PageAlloc>());
      cache->clear_pages_ahead();
      cache_ = cache;
    }
  } catch (const std::bad_alloc&) {
    throw Error(Status::oom, formatted("no memory for the index of a cache of {} bytes", bytes), "memory");
  }
  cache_bytes_ = bytes;
  return cache_;
}

ProcessReaders& process_readers() {
  return one_per_process<ProcessReaders>();
}

}  // namespace damacy
