// Reads and resets the counters of a pipeline: those of its board, its caches, its stores and its slots.
#include "damacy/cache/chunk_tier.h"
#include "damacy/core/cores.h"
#include "damacy/core/mutex.h"
#include "damacy/pipeline/pipeline_impl.h"

namespace damacy {
namespace {

template <class Count>
void set_count(const Count& count, std::int64_t& number, std::int64_t& bytes) noexcept {
  const auto [counted, in_bytes] = count;
  number = counted;
  bytes = in_bytes;
}

void set_counts(const DiskTier& tier, Stats& stats) {
  const DiskTier::Counts counts = tier.counts();
  set_count(counts.hits, stats.disk_hits, stats.disk_hits_bytes);
  set_count(counts.misses, stats.disk_misses, stats.disk_misses_bytes);
  set_count(counts.kept, stats.disk_kept, stats.disk_kept_bytes);
  set_count(counts.evicted, stats.disk_evicted, stats.disk_evicted_bytes);
  set_count(counts.dropped, stats.disk_dropped, stats.disk_dropped_bytes);
}

void set_counts(const NetworkCounts::Seen& network, Stats& stats) {
  stats.requests = network.requests;
  stats.requests_repeated = network.repeated;
  stats.requests_throttled = network.throttled;
  stats.requests_hedged = network.hedged;
  stats.hedges_won = network.hedges_won;
  stats.requests_in_flight = network.under_way;
  stats.requests_in_flight_best = network.allowed;
  stats.connections_opened = network.connections;
  stats.bytes_received = network.body_bytes;
  stats.documents_revalidated = network.revalidated;
  stats.first_byte = {network.first_byte_ms, network.best_first_byte_ms, 0, 0, network.first_bytes};
}

void set_counts(BatchEngine& engine, Stats& stats) {
  if (const ChunkTier* const cache = engine.cache()) {
    const ChunkTier::Counts counts = cache->counts();
    set_count(counts.hits, stats.cache_hits, stats.cache_hits_bytes);
    set_count(counts.misses, stats.cache_misses, stats.cache_misses_bytes);
    set_count(counts.kept, stats.cache_kept, stats.cache_kept_bytes);
    set_count(counts.evicted, stats.cache_evicted, stats.cache_evicted_bytes);
  }
  if (const ChunkTier* const cache = engine.host_cache()) {
    const ChunkTier::Counts counts = cache->counts();
    set_count(counts.hits, stats.host_cache_hits, stats.host_cache_hits_bytes);
    set_count(counts.misses, stats.host_cache_misses, stats.host_cache_misses_bytes);
    set_count(counts.kept, stats.host_cache_kept, stats.host_cache_kept_bytes);
    set_count(counts.evicted, stats.host_cache_evicted, stats.host_cache_evicted_bytes);
  }
  if (const ChunkTier* const cache = engine.device_cache()) {
    const ChunkTier::Counts counts = cache->counts();
    set_count(counts.hits, stats.device_cache_hits, stats.device_cache_hits_bytes);
    set_count(counts.misses, stats.device_cache_misses, stats.device_cache_misses_bytes);
    set_count(counts.kept, stats.device_cache_kept, stats.device_cache_kept_bytes);
    set_count(counts.evicted, stats.device_cache_evicted, stats.device_cache_evicted_bytes);
  }
}

}  // namespace

Observation PipelineImpl::observe() const noexcept {
  if (last_seen) return *last_seen;
  BatchEngine& engine = production->engine();
  Observation seen;
  seen.stats = board.read();
  const Catalog::Counts counts = catalog->counts();
  seen.stats.zarr_meta_hits = static_cast<std::int64_t>(counts.array_hits);
  seen.stats.zarr_meta_misses = static_cast<std::int64_t>(counts.array_misses);
  seen.stats.shard_idx_hits = static_cast<std::int64_t>(counts.shard_hits);
  seen.stats.shard_idx_misses = static_cast<std::int64_t>(counts.shard_misses);
  seen.stats.batches_truncated = stream.truncated();
  set_counts(engine, seen.stats);
  if (disk_tier) set_counts(*disk_tier, seen.stats);
  seen.network = catalog->network();
  set_counts(seen.network, seen.stats);
  const Slots::Counts added = slots->counts();
  seen.added_slots = static_cast<std::int64_t>(added.slots);
  seen.held = static_cast<std::int64_t>(added.held);
  seen.keep_bytes = keep.bytes;
  seen.stats.kept_bytes_committed = static_cast<std::int64_t>(added.bytes);
  seen.stats.gpu_bytes_committed = config.n_batches * static_cast<std::int64_t>(slots->bytes_of_one()) +
                                   seen.stats.kept_bytes_committed + static_cast<std::int64_t>(engine.device_bytes());
  seen.stats.host_bytes_committed = static_cast<std::int64_t>(engine.host_bytes());
  seen.seconds = std::chrono::duration<double>(board.observed()).count();
  seen.on_device = engine_device && 2 * seen.stats.chunks_decoded_on_host < seen.stats.chunks_decoded;
  seen.has_device = engine_device != nullptr;
  seen.chunks = board.chunks_seen();
  const BatchEngine::AtOnce at_once = engine.at_once();
  seen.readers = static_cast<double>(at_once.readers);
  seen.decoders = static_cast<double>(at_once.decoders);
  seen.wave_encoded = static_cast<double>(at_once.wave_encoded);
  seen.wave_decoded = static_cast<double>(at_once.wave_decoded);
  seen.larger_waves = at_once.larger_waves;
  return seen;
}

Stats PipelineImpl::stats() {
  check_not_forked();
  const Lock lock(wakeup->mutex);
  return observe().stats;
}

void PipelineImpl::stats_reset() {
  check_not_forked();
  const Lock lock(wakeup->mutex);
  check_usable();
  board.reset();
  catalog->reset_counts();
  BatchEngine& engine = production->engine();
  for (ChunkTier* const cache : {engine.cache(), engine.host_cache(), engine.device_cache()})
    if (cache != nullptr) cache->reset_counts();
  if (disk_tier) disk_tier->reset_counts();
  stream.reset_truncated();
}

Explanation PipelineImpl::explain() {
  check_not_forked();
  Observation seen;
  Config used = config;
  {
    const Lock lock(wakeup->mutex);
    seen = observe();
    used.lookahead_batches = stream.lookahead_batches();
  }
  seen.cores = static_cast<std::int64_t>(usable_cores());
  return damacy::explain(used, seen);
}

}  // namespace damacy
