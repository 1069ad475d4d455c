// The reader threads of this process for single reads: one set for each number of threads that a caller used, with a
// common cache of shard indices, and one of decoded chunks. Sets are kept, because the last reference to one may be
// dropped on one of its own threads. Knows no read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "damacy/cache/chunk_tier.h"
#include "damacy/core/cores.h"
#include "damacy/core/mutex.h"
#include "damacy/single/selection_readers.h"

namespace damacy {

// Any member may be called from any thread.
class ProcessReaders {
 public:
  std::shared_ptr<SelectionReaders> with_threads(std::size_t threads);  // at least one
  std::shared_ptr<SelectionReaders> one_thread_a_core() { return with_threads(cores_); }
  std::vector<std::shared_ptr<SelectionReaders>> all();
  IndexCache& indices() noexcept { return indices_; }
  // The cache of decoded chunks of all sets, of that size; null for 0. Another size than before drops the cache and
  // makes a new one. Reads that are under way keep the one that they have. Throws Error(oom).
  std::shared_ptr<ChunkTier> cache_of(std::uint64_t bytes);
  // The cache, whatever its size. If there is none: cache_of(setting).
  std::shared_ptr<ChunkTier> any_cache(const std::atomic<std::uint64_t>& setting);
  // cache_of(bytes), and sets that. Until then any_cache() finds what was before.
  void set_cache(std::atomic<std::uint64_t>& setting, std::uint64_t bytes);
  std::uint64_t cache_bytes() const noexcept { return cache_bytes_; }  // 0: there is none

 private:
  // `dropped` is destroyed without the lock: it may take long to give the memory back.
  std::shared_ptr<ChunkTier> resized(std::uint64_t bytes, std::shared_ptr<ChunkTier>& dropped)
      DAMACY_REQUIRES(cache_mutex_);

  const std::size_t cores_ = usable_cores();
  IndexCache indices_;
  Mutex mutex_;
  std::map<std::size_t, std::shared_ptr<SelectionReaders>> by_threads_ DAMACY_GUARDED_BY(mutex_);
  Mutex cache_mutex_;  // held while a cache is made
  std::shared_ptr<ChunkTier> cache_ DAMACY_GUARDED_BY(cache_mutex_);
  std::atomic<std::uint64_t> cache_bytes_{0};  // changes under cache_mutex_
};

// Never destroyed. A forked child has its own, because it does not have its parent's threads.
[[nodiscard]] ProcessReaders& process_readers();

}  // namespace damacy
