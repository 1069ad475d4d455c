// Statistics of the stages: cumulative times and exact counters. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

#include "damacy/batch/chunk_reuse.h"
#include "damacy/core/mutex.h"

namespace damacy {

struct Metric {
  double ms = 0;
  double best_ms = 1e30;
  double input_bytes = 0;
  double output_bytes = 0;
  std::int64_t count = 0;
};

// python/damacy/_pipeline/stats.py documents the fields.
struct Stats {
  Metric plan, io, h2d, decompress, assemble, pop_wait_io, pop_wait_compute, flush_wait;
  std::int64_t zarr_meta_hits = 0, zarr_meta_misses = 0, shard_idx_hits = 0, shard_idx_misses = 0;
  std::int64_t batches_emitted = 0, batches_truncated = 0, waves_emitted = 0, gpu_bytes_committed = 0;
  std::int64_t chunks_decoded = 0, chunks_deduplicated = 0, bytes_read = 0, reads_issued = 0;
  std::int64_t samples_skipped = 0, samples_filled = 0, host_bytes_committed = 0, chunks_decoded_on_host = 0;
  std::int64_t cache_hits = 0, cache_misses = 0, cache_kept = 0, cache_evicted = 0;
  std::int64_t cache_hits_bytes = 0, cache_misses_bytes = 0, cache_kept_bytes = 0, cache_evicted_bytes = 0;
  std::int64_t host_cache_hits = 0, host_cache_misses = 0, host_cache_kept = 0, host_cache_evicted = 0;
  std::int64_t host_cache_hits_bytes = 0, host_cache_misses_bytes = 0;
  std::int64_t host_cache_kept_bytes = 0, host_cache_evicted_bytes = 0;
  std::int64_t device_cache_hits = 0, device_cache_misses = 0, device_cache_kept = 0, device_cache_evicted = 0;
  std::int64_t device_cache_hits_bytes = 0, device_cache_misses_bytes = 0;
  std::int64_t device_cache_kept_bytes = 0, device_cache_evicted_bytes = 0;
  std::int64_t slots_added = 0, slots_dropped = 0, kept_bytes_committed = 0, bytes_padded = 0;
};

class StatsBoard {
 public:
  using Span = std::chrono::nanoseconds;

  void record(Metric Stats::* metric, Span time, double input_bytes, double output_bytes) {
    const Lock lock(mutex_);
    Metric& m = stats_.*metric;
    const double ms = std::chrono::duration<double, std::milli>(time).count();
    m.ms += ms;
    m.best_ms = ms < m.best_ms ? ms : m.best_ms;
    m.input_bytes += input_bytes;
    m.output_bytes += output_bytes;
    ++m.count;
  }
  void add(std::int64_t Stats::* counter, std::int64_t amount) {
    const Lock lock(mutex_);
    stats_.*counter += amount;
  }
  Stats read() const {
    const Lock lock(mutex_);
    return stats_;
  }
  // `add` gets the ChunkReuse, and adds the chunks that a batch wants.
  template <class Add>
  void add_chunks(Add add) {
    const Lock lock(reuse_mutex_);
    add(reuse_);
  }
  ChunkReuse::Seen chunks_seen() const {
    const Lock lock(reuse_mutex_);
    return reuse_.seen();
  }
  // Since the start, or the last reset.
  Span observed() const {
    const Lock lock(mutex_);
    return std::chrono::steady_clock::now() - since_;
  }
  void reset() {
    add_chunks([](ChunkReuse& reuse) { reuse.reset(); });
    const Lock lock(mutex_);
    stats_ = Stats{};
    since_ = std::chrono::steady_clock::now();
  }

 private:
  mutable Mutex reuse_mutex_;
  ChunkReuse reuse_ DAMACY_GUARDED_BY(reuse_mutex_);
  mutable Mutex mutex_;
  Stats stats_ DAMACY_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point since_ DAMACY_GUARDED_BY(mutex_) = std::chrono::steady_clock::now();
};

class Stopwatch {
 public:
  StatsBoard::Span elapsed() const noexcept { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace damacy
