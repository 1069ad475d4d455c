// The names of the settings (Config, ArraySpec) and counters (Stats), and the members that have their values. Python's
// bindings and the C interface read these tables, so that a new field is one line here, a member with its meaning in
// config.h or stats.h, and a field of Python's class. `device`, `dtype` and `arrays` of Config are in no table: each
// interface has its own form of them. Of an ArraySpec the C interface has the dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "damacy/batch/config.h"
#include "damacy/batch/stats.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {

template <class Value>
struct Named {
  std::string_view name;
  Value value;
};
template <class Value>
Named(const char*, Value) -> Named<Value>;

inline constexpr Named<std::int64_t Config::*> kIntegerSettings[] = {
    {"batch_size", &Config::batch_size},
    {"host_buffer_bytes", &Config::host_buffer_bytes},
    {"device_buffer_bytes", &Config::device_buffer_bytes},
    {"n_io_threads", &Config::n_io_threads},
    {"n_compute_threads", &Config::n_compute_threads},
    {"n_zarrs_meta_cache", &Config::n_zarrs_meta_cache},
    {"n_shards_meta_cache", &Config::n_shards_meta_cache},
    {"max_chunk_uncompressed_bytes", &Config::max_chunk_uncompressed_bytes},
    {"max_gpu_memory_bytes", &Config::max_gpu_memory_bytes},
    {"max_bytes_per_element", &Config::max_bytes_per_element},
    {"n_batches", &Config::n_batches},
    {"cache_bytes", &Config::cache_bytes},
    {"host_cache_bytes", &Config::host_cache_bytes},
    {"shared_cache_bytes", &Config::shared_cache_bytes},
    {"device_cache_bytes", &Config::device_cache_bytes},
    {"disk_cache_bytes", &Config::disk_cache_bytes},
};
inline constexpr Named<std::optional<std::int64_t> Config::*> kOptionalIntegerSettings[] = {
    {"lookahead_batches", &Config::lookahead_batches},
    {"keep_bytes", &Config::keep_bytes},
};
inline constexpr Named<std::optional<double> Config::*> kNumberSettings[] = {
    {"pop_timeout_s", &Config::pop_timeout_s},
};
inline constexpr Named<bool Config::*> kFlagSettings[] = {
    {"disk_cache_shared", &Config::disk_cache_shared},
};
inline constexpr Named<std::string Config::*> kTextSettings[] = {
    {"shared_cache", &Config::shared_cache},
    {"disk_cache", &Config::disk_cache},
};

// The entry of that name. Throws Error(inval, "arguments") with all names; `what` says what they name.
template <class Value, std::size_t count>
Value find_named(const Named<Value> (&table)[count], std::string_view name, std::string_view what) {
  std::string names;
  for (const auto& entry : table) {
    if (entry.name == name) return entry.value;
    names += formatted("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  throw Error(Status::inval, formatted("no {} \"{}\"; there are: {}", what, name, names), "arguments");
}

// Settings that have one of a few names as their value.
inline constexpr Named<OnError> kOnErrors[] = {
    {"raise", OnError::raise}, {"skip", OnError::skip}, {"fill", OnError::fill}};
inline constexpr Named<Verify> kVerifies[] = {{"needed", Verify::needed}, {"whole", Verify::whole}};

// Calls `visit` with the name, the member and the named values of each.
template <class Visit>
void for_named_settings(Visit visit) {
  visit("on_error", &Config::on_error, kOnErrors);
  visit("verify", &Config::verify, kVerifies);
}

// The fields of ArraySpec. Python's `clip` is two of them.
inline constexpr std::tuple kSpecFields{
    Named{"dtype", &ArraySpec::dtype},
    Named{"cf", &ArraySpec::cf},
    Named{"scale", &ArraySpec::scale},
    Named{"offset", &ArraySpec::offset},
    Named{"clip_low", &ArraySpec::clip_low},
    Named{"clip_high", &ArraySpec::clip_high},
    Named{"rounding", &ArraySpec::rounding},
    Named{"missing", &ArraySpec::missing},
    Named{"pad", &ArraySpec::pad},
    Named{"channels", &ArraySpec::channels},
    Named{"channel_axis", &ArraySpec::channel_axis},
    Named{"axes", &ArraySpec::axes},
    Named{"order", &ArraySpec::order},
};

inline constexpr Named<Metric Stats::*> kMetrics[] = {
    {"plan", &Stats::plan},
    {"io", &Stats::io},
    {"h2d", &Stats::h2d},
    {"decompress", &Stats::decompress},
    {"assemble", &Stats::assemble},
    {"pop_wait_io", &Stats::pop_wait_io},
    {"pop_wait_compute", &Stats::pop_wait_compute},
    {"flush_wait", &Stats::flush_wait},
    {"first_byte", &Stats::first_byte},
};
inline constexpr Named<std::int64_t Stats::*> kCounters[] = {
    {"zarr_meta_hits", &Stats::zarr_meta_hits},
    {"zarr_meta_misses", &Stats::zarr_meta_misses},
    {"shard_idx_hits", &Stats::shard_idx_hits},
    {"shard_idx_misses", &Stats::shard_idx_misses},
    {"batches_emitted", &Stats::batches_emitted},
    {"batches_truncated", &Stats::batches_truncated},
    {"waves_emitted", &Stats::waves_emitted},
    {"gpu_bytes_committed", &Stats::gpu_bytes_committed},
    {"chunks_decoded", &Stats::chunks_decoded},
    {"chunks_deduplicated", &Stats::chunks_deduplicated},
    {"bytes_read", &Stats::bytes_read},
    {"reads_issued", &Stats::reads_issued},
    {"samples_skipped", &Stats::samples_skipped},
    {"samples_filled", &Stats::samples_filled},
    {"host_bytes_committed", &Stats::host_bytes_committed},
    {"chunks_decoded_on_host", &Stats::chunks_decoded_on_host},
    {"slots_added", &Stats::slots_added},
    {"slots_dropped", &Stats::slots_dropped},
    {"kept_bytes_committed", &Stats::kept_bytes_committed},
    {"bytes_padded", &Stats::bytes_padded},
    {"cache_hits", &Stats::cache_hits},
    {"cache_misses", &Stats::cache_misses},
    {"cache_kept", &Stats::cache_kept},
    {"cache_evicted", &Stats::cache_evicted},
    {"cache_hits_bytes", &Stats::cache_hits_bytes},
    {"cache_misses_bytes", &Stats::cache_misses_bytes},
    {"cache_kept_bytes", &Stats::cache_kept_bytes},
    {"cache_evicted_bytes", &Stats::cache_evicted_bytes},
    {"host_cache_hits", &Stats::host_cache_hits},
    {"host_cache_misses", &Stats::host_cache_misses},
    {"host_cache_kept", &Stats::host_cache_kept},
    {"host_cache_evicted", &Stats::host_cache_evicted},
    {"host_cache_hits_bytes", &Stats::host_cache_hits_bytes},
    {"host_cache_misses_bytes", &Stats::host_cache_misses_bytes},
    {"host_cache_kept_bytes", &Stats::host_cache_kept_bytes},
    {"host_cache_evicted_bytes", &Stats::host_cache_evicted_bytes},
    {"device_cache_hits", &Stats::device_cache_hits},
    {"device_cache_misses", &Stats::device_cache_misses},
    {"device_cache_kept", &Stats::device_cache_kept},
    {"device_cache_evicted", &Stats::device_cache_evicted},
    {"device_cache_hits_bytes", &Stats::device_cache_hits_bytes},
    {"device_cache_misses_bytes", &Stats::device_cache_misses_bytes},
    {"device_cache_kept_bytes", &Stats::device_cache_kept_bytes},
    {"device_cache_evicted_bytes", &Stats::device_cache_evicted_bytes},
    {"disk_hits", &Stats::disk_hits},
    {"disk_misses", &Stats::disk_misses},
    {"disk_kept", &Stats::disk_kept},
    {"disk_evicted", &Stats::disk_evicted},
    {"disk_dropped", &Stats::disk_dropped},
    {"disk_hits_bytes", &Stats::disk_hits_bytes},
    {"disk_misses_bytes", &Stats::disk_misses_bytes},
    {"disk_kept_bytes", &Stats::disk_kept_bytes},
    {"disk_evicted_bytes", &Stats::disk_evicted_bytes},
    {"disk_dropped_bytes", &Stats::disk_dropped_bytes},
    {"requests", &Stats::requests},
    {"requests_repeated", &Stats::requests_repeated},
    {"requests_throttled", &Stats::requests_throttled},
    {"requests_hedged", &Stats::requests_hedged},
    {"hedges_won", &Stats::hedges_won},
    {"requests_in_flight", &Stats::requests_in_flight},
    {"requests_in_flight_best", &Stats::requests_in_flight_best},
    {"connections_opened", &Stats::connections_opened},
    {"bytes_received", &Stats::bytes_received},
    {"documents_revalidated", &Stats::documents_revalidated},
};

template <class Value, std::size_t count>
constexpr bool all_differ(const Named<Value> (&table)[count]) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (table[i].name == table[j].name || table[i].value == table[j].value) return false;
  return true;
}
static_assert(all_differ(kMetrics) && all_differ(kCounters), "no name and no field of Stats is in a table twice");
static_assert(sizeof(Stats) == std::size(kMetrics) * sizeof(Metric) + std::size(kCounters) * sizeof(std::int64_t),
              "every field of Stats has a line in a table");

}  // namespace damacy
