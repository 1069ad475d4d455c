// Statistics of the stages: cumulative times and exact counters.
#pragma once

#include <cstdint>

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
  std::int64_t disk_hits = 0, disk_misses = 0, disk_kept = 0, disk_evicted = 0, disk_dropped = 0;
  std::int64_t disk_hits_bytes = 0, disk_misses_bytes = 0, disk_kept_bytes = 0, disk_evicted_bytes = 0;
  std::int64_t disk_dropped_bytes = 0;
  std::int64_t slots_added = 0, slots_dropped = 0, kept_bytes_committed = 0, bytes_padded = 0;
};

}  // namespace damacy
