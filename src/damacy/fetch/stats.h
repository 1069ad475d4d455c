// What the stages of a pipeline did: cumulative times and exact counters (Stats), and what limits the stream of batches
// and which setting would help (Explanation). Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace damacy {

struct Metric {
  double ms = 0;          // in all
  double best_ms = 1e30;  // of one observation
  double input_bytes = 0;
  double output_bytes = 0;
  std::int64_t count = 0;
};

// Counts since the start or stats_reset(); *_committed and requests_in_flight* are of now. cache_* count chunks.
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
  // Of remote stores; requests_in_flight is now, and requests_in_flight_best what is allowed now.
  Metric first_byte;
  std::int64_t requests = 0, requests_repeated = 0, requests_throttled = 0, requests_in_flight = 0;
  std::int64_t requests_in_flight_best = 0, requests_hedged = 0, hedges_won = 0;
  std::int64_t connections_opened = 0, bytes_received = 0, documents_revalidated = 0;
  std::int64_t slots_added = 0, slots_dropped = 0, kept_bytes_committed = 0, bytes_padded = 0;
};

// One stage that batches pass through.
struct StageLoad {
  std::string name;        // plan, read, decode, place, bus
  double busy = 0;         // of the time that its lanes (threads, or the device's one) had, 0 to 1
  double bytes_per_s = 0;  // of finished batches, if this stage were busy all the time: its measured ceiling
};

struct Explanation {
  std::string binds;           // a stage's name; "consumer", "latency", "server", or "nothing yet"
  double share = 0;            // of the binding ceiling that was reached, 0 to 1
  double bytes_per_s = 0;      // of finished batches
  double consumer_waited = 0;  // of the time, 0 to 1
  std::vector<StageLoad> stages;
  // Of the encoded bytes that batches wanted, the share that earlier batches had wanted too, 0 to 1; and the chunks
  // that were wanted so far, each once. Estimates.
  double wanted_again = 0;
  double encoded_bytes = 0, decoded_bytes = 0;
  std::string advice;  // the setting that would help; or why none would
  std::string text;    // all of it, for people
};

}  // namespace damacy
