// The names of the settings (Config, ArraySpec) and counters (Stats), and the members that have their values. Python's
// bindings and the C interface read these tables, so that a new field is one line here, a member with its meaning in
// config.h or stats.h, and a field of Python's class. `device`, `dtype` and `arrays` of Config are in no table: each
// interface has its own form of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "damacy/batch/config.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/fetch/stats.h"

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
template <class Entry, std::size_t count>
auto find_named(const Entry (&table)[count], std::string_view name, std::string_view what) {
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
inline constexpr Named<ThreadCores> kThreadCores[] = {{"rank", ThreadCores::rank}, {"all", ThreadCores::all}};

// Calls `visit` with the name, the member and the named values of each.
template <class Visit>
void for_named_settings(Visit visit) {
  visit("on_error", &Config::on_error, kOnErrors);
  visit("verify", &Config::verify, kVerifies);
  visit("thread_cores", &Config::thread_cores, kThreadCores);
}

inline constexpr Named<Rounding> kRoundings[] = {{"truncate", Rounding::truncate}, {"nearest", Rounding::nearest}};
// What lies beyond an array, where it is no number.
inline constexpr Named<Border> kBorders[] = {
    {"edge", Border::edge}, {"reflect", Border::reflect}, {"symmetric", Border::symmetric}, {"wrap", Border::wrap}};

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

// A gauge is a value of now, a counter a sum that only stats_reset() makes smaller.
enum class CounterKind { counter, gauge };
struct NamedCounter {
  std::string_view name;
  std::int64_t Stats::* value;
  std::string_view meaning;
  CounterKind kind = CounterKind::counter;
};
inline constexpr NamedCounter kCounters[] = {
    {"zarr_meta_hits", &Stats::zarr_meta_hits, "arrays whose metadata were in memory"},
    {"zarr_meta_misses", &Stats::zarr_meta_misses, "arrays whose metadata were read"},
    {"shard_idx_hits", &Stats::shard_idx_hits, "shards whose index was in memory"},
    {"shard_idx_misses", &Stats::shard_idx_misses, "shards whose index was read"},
    {"batches_emitted", &Stats::batches_emitted, "batches that were popped"},
    {"batches_truncated", &Stats::batches_truncated, "batches with fewer samples than batch_size"},
    {"waves_emitted", &Stats::waves_emitted, "groups of chunks that were decoded together"},
    {"gpu_bytes_committed", &Stats::gpu_bytes_committed,
     "bytes of slots and of decoding in the memory of batches: the device's, or the host's", CounterKind::gauge},
    {"chunks_decoded", &Stats::chunks_decoded, "chunks that were decoded"},
    {"chunks_deduplicated", &Stats::chunks_deduplicated, "uses of a chunk that another use's decode served"},
    {"bytes_read", &Stats::bytes_read, "bytes of chunks that were read from stores"},
    {"reads_issued", &Stats::reads_issued, "reads of chunks from stores"},
    {"samples_skipped", &Stats::samples_skipped, "samples that failed and were left out"},
    {"samples_filled", &Stats::samples_filled, "samples that failed and whose rows were filled"},
    {"host_bytes_committed", &Stats::host_bytes_committed, "bytes of buffers and of decoding in host memory",
     CounterKind::gauge},
    {"chunks_decoded_on_host", &Stats::chunks_decoded_on_host, "chunks that the host decoded"},
    {"slots_added", &Stats::slots_added, "slots that were added beyond n_batches"},
    {"slots_dropped", &Stats::slots_dropped, "added slots that were freed"},
    {"kept_bytes_committed", &Stats::kept_bytes_committed,
     "bytes of slots beyond n_batches, part of gpu_bytes_committed", CounterKind::gauge},
    {"bytes_padded", &Stats::bytes_padded, "bytes of batches that lie beyond the arrays"},
    {"cache_hits", &Stats::cache_hits, "chunks that the cache of decoded chunks had"},
    {"cache_misses", &Stats::cache_misses, "chunks that the cache of decoded chunks did not have"},
    {"cache_kept", &Stats::cache_kept, "chunks that the cache of decoded chunks took"},
    {"cache_evicted", &Stats::cache_evicted, "chunks that the cache of decoded chunks dropped for others"},
    {"cache_hits_bytes", &Stats::cache_hits_bytes, "decoded bytes of cache_hits"},
    {"cache_misses_bytes", &Stats::cache_misses_bytes, "decoded bytes of cache_misses"},
    {"cache_kept_bytes", &Stats::cache_kept_bytes, "decoded bytes of cache_kept"},
    {"cache_evicted_bytes", &Stats::cache_evicted_bytes, "decoded bytes of cache_evicted"},
    {"host_cache_hits", &Stats::host_cache_hits, "chunks that the host's cache of encoded chunks had"},
    {"host_cache_misses", &Stats::host_cache_misses, "chunks that the host's cache of encoded chunks did not have"},
    {"host_cache_kept", &Stats::host_cache_kept, "chunks that the host's cache of encoded chunks took"},
    {"host_cache_evicted", &Stats::host_cache_evicted,
     "chunks that the host's cache of encoded chunks dropped for others"},
    {"host_cache_hits_bytes", &Stats::host_cache_hits_bytes, "encoded bytes of host_cache_hits"},
    {"host_cache_misses_bytes", &Stats::host_cache_misses_bytes, "encoded bytes of host_cache_misses"},
    {"host_cache_kept_bytes", &Stats::host_cache_kept_bytes, "encoded bytes of host_cache_kept"},
    {"host_cache_evicted_bytes", &Stats::host_cache_evicted_bytes, "encoded bytes of host_cache_evicted"},
    {"device_cache_hits", &Stats::device_cache_hits, "chunks that the device's cache of encoded chunks had"},
    {"device_cache_misses", &Stats::device_cache_misses,
     "chunks that the device's cache of encoded chunks did not have"},
    {"device_cache_kept", &Stats::device_cache_kept, "chunks that the device's cache of encoded chunks took"},
    {"device_cache_evicted", &Stats::device_cache_evicted,
     "chunks that the device's cache of encoded chunks dropped for others"},
    {"device_cache_hits_bytes", &Stats::device_cache_hits_bytes, "encoded bytes of device_cache_hits"},
    {"device_cache_misses_bytes", &Stats::device_cache_misses_bytes, "encoded bytes of device_cache_misses"},
    {"device_cache_kept_bytes", &Stats::device_cache_kept_bytes, "encoded bytes of device_cache_kept"},
    {"device_cache_evicted_bytes", &Stats::device_cache_evicted_bytes, "encoded bytes of device_cache_evicted"},
    {"disk_hits", &Stats::disk_hits, "entries that the disk cache had"},
    {"disk_misses", &Stats::disk_misses, "entries that the disk cache did not have"},
    {"disk_kept", &Stats::disk_kept, "entries that the disk cache took"},
    {"disk_evicted", &Stats::disk_evicted, "entries that the disk cache dropped for others"},
    {"disk_dropped", &Stats::disk_dropped, "entries that could not be written to the disk cache in time"},
    {"disk_hits_bytes", &Stats::disk_hits_bytes, "encoded bytes of disk_hits"},
    {"disk_misses_bytes", &Stats::disk_misses_bytes, "encoded bytes of disk_misses"},
    {"disk_kept_bytes", &Stats::disk_kept_bytes, "encoded bytes of disk_kept"},
    {"disk_evicted_bytes", &Stats::disk_evicted_bytes, "encoded bytes of disk_evicted"},
    {"disk_dropped_bytes", &Stats::disk_dropped_bytes, "encoded bytes of disk_dropped"},
    {"requests", &Stats::requests, "requests to servers"},
    {"requests_repeated", &Stats::requests_repeated, "requests that were sent again after a failure"},
    {"requests_throttled", &Stats::requests_throttled, "requests that were answered 429 or 503"},
    {"requests_hedged", &Stats::requests_hedged, "requests that were sent once more because their first byte was late"},
    {"hedges_won", &Stats::hedges_won, "hedged requests whose second answer came first"},
    {"requests_in_flight", &Stats::requests_in_flight, "requests under way", CounterKind::gauge},
    {"requests_in_flight_best", &Stats::requests_in_flight_best,
     "requests allowed under way to the server that was asked last", CounterKind::gauge},
    {"connections_opened", &Stats::connections_opened, "new connections to servers"},
    {"bytes_received", &Stats::bytes_received, "bytes of the bodies of answers"},
    {"documents_revalidated", &Stats::documents_revalidated,
     "objects that were asked for again because what was known of them was old"},
};

template <class Entry, std::size_t count>
constexpr bool all_differ(const Entry (&table)[count]) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (table[i].name == table[j].name || table[i].value == table[j].value) return false;
  return true;
}
static_assert(all_differ(kMetrics) && all_differ(kCounters), "no name and no field of Stats is in a table twice");
static_assert(sizeof(Stats) == std::size(kMetrics) * sizeof(Metric) + std::size(kCounters) * sizeof(std::int64_t),
              "every field of Stats has a line in a table");

}  // namespace damacy
