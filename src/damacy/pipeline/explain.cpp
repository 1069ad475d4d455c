#include "damacy/pipeline/explain.h"

#include <algorithm>
#include <cmath>

#include "damacy/batch/memory_plan.h"
#include "damacy/core/formatted.h"
#include "damacy/core/size_text.h"
#include "damacy/pipeline/network_load.h"

namespace damacy {
namespace {

// Below this a stage is partly idle: the limit is the latency of all stages, one after the other.
constexpr double kBusyEnough = 0.6;
// If the consumer waits for less of the time, it is the bottleneck itself.
constexpr double kHardlyWaited = 0.1;

double busy_of(const Metric& metric, double seconds, double lanes) {
  return std::clamp(metric.ms / 1e3 / (seconds * lanes), 0.0, 1.0);
}

std::vector<StageLoad> stages_of(const Config& config, const Observation& seen, double rate) {
  const auto threads =
      static_cast<double>(config.n_io_threads + config.n_compute_threads);  // do all of it on the cores
  const double readers = seen.on_device ? seen.readers : threads;
  const double decoders = seen.on_device ? seen.decoders : threads;
  const double placers = seen.on_device ? 1 : threads;
  std::vector<StageLoad> stages{{"plan", busy_of(seen.stats.plan, seen.seconds, 1), 0},
                                {"read", busy_of(seen.stats.io, seen.seconds, readers), 0},
                                {"decode", busy_of(seen.stats.decompress, seen.seconds, decoders), 0},
                                {"place", busy_of(seen.stats.assemble, seen.seconds, placers), 0}};
  if (seen.on_device) stages.push_back({"bus", busy_of(seen.stats.h2d, seen.seconds, 1), 0});
  for (StageLoad& stage : stages) stage.bytes_per_s = stage.busy > 0 ? rate / stage.busy : 0;
  return stages;
}

// On the cores the same threads read, decode and place: together they are one ceiling, and the largest part names it.
double load_of(const std::vector<StageLoad>& stages, const StageLoad& largest, const Observation& seen) {
  if (seen.on_device || largest.name == "plan") return largest.busy;
  double sum = 0;
  for (const StageLoad& stage : stages)
    if (stage.name != "plan") sum += stage.busy;
  return std::min(sum, 1.0);
}

// A cache smaller than this gives too little to name it.
constexpr double kWantedAgain = 0.1;
// Of a cache: its index, and what its space loses between chunks.
constexpr double kCacheOfChunks = 1.15;

// A number that Config takes.
std::string size_setting(double bytes) {
  const bool is_large = bytes > 16.0 * (1 << 30);
  return formatted("\"{}{}\"", std::llround(std::ceil(bytes / (is_large ? 1 << 30 : 1 << 20))),
                   is_large ? "GiB" : "MiB");
}

// `advice`, and the cache that would have held what was wanted again, if it is not there, or is smaller: of decoded
// chunks on the cores, of encoded ones where a device decodes.
std::string with_cache(const std::string& advice, const Config& config, const Observation& seen) {
  const ChunkReuse::Seen& chunks = seen.chunks;
  if (seen.has_device != seen.on_device || chunks.again < kWantedAgain) return advice;
  const double bytes = seen.on_device ? kCacheOfChunks * chunks.encoded_bytes
                                      : kCacheOfChunks * std::max(chunks.decoded_bytes,
                                                                  8 * static_cast<double>(chunks.largest_chunk_bytes));
  const std::int64_t now = seen.on_device ? config.device_cache_bytes : config.cache_bytes;
  if (static_cast<double>(now) >= bytes) return advice;
  const std::string cache = formatted(
      "{}={} (now {}): {} % of the encoded bytes that batches wanted had been wanted before, and it would hold all chunks seen so far{}",
      seen.on_device ? "device_cache_bytes" : "cache_bytes", size_setting(bytes), size_text(now),
      std::llround(100 * chunks.again), seen.on_device ? "" : ", decoded");
  constexpr std::string_view kNone = "no setting: ";
  if (advice.starts_with(kNone)) return formatted("{}; no other setting: {}", cache, advice.substr(kNone.size()));
  return formatted("{}; {}", advice, cache);
}

std::string more_threads(const Config& config, const Observation& seen) {
  const std::int64_t threads = config.n_io_threads + config.n_compute_threads;
  if (threads >= seen.cores) return formatted("no setting: {} threads use all {} cores", threads, seen.cores);
  return formatted("more threads: n_compute_threads={} (now {}; the machine has {} cores)",
                   seen.cores - config.n_io_threads, config.n_compute_threads, seen.cores);
}

// Readers for a device. More of them than their share of the cores help only while they wait in the kernel.
std::string more_readers(const Config& config, const Observation& seen) {
  const std::int64_t most = readers_beside_device(seen.cores);
  if (config.n_io_threads < most)
    return formatted("more readers: n_io_threads={} (now {}; the machine has {} cores, and the rest feed the device)",
                     most, config.n_io_threads, seen.cores);
  if (config.n_io_threads > seen.cores)
    return formatted("no setting: {} threads read on {} cores", config.n_io_threads, seen.cores);
  return formatted(
      "no setting where data are in the page cache: {} of {} cores read, and the rest feed the device; from storage that is waited for, n_io_threads={} (now {})",
      most, seen.cores, 2 * seen.cores, config.n_io_threads);
}

std::int64_t percent(double part) {
  return std::llround(100 * part);
}

// The part of a wave's memory that the waves so far had used, on average.
double fill_of_waves(const Observation& seen) {
  const Metric& decoded = seen.stats.decompress;
  const auto waves = static_cast<double>(std::max<std::int64_t>(seen.stats.waves_emitted, 1));
  const double encoded = seen.wave_encoded > 0 ? decoded.input_bytes / waves / seen.wave_encoded : 1;
  return std::max(encoded, seen.wave_decoded > 0 ? decoded.output_bytes / waves / seen.wave_decoded : 1);
}

// A decoder on a device is faster with more chunks under way, up to a size. Of small batches, waves have as many as are
// queued.
std::string larger_waves(const Config& config, const Observation& seen) {
  constexpr std::int64_t kLookaheadOfSmallBatches = 8;
  if (const double fill = fill_of_waves(seen);
      seen.stats.waves_emitted > 0 && fill < 0.5 && lookahead_of(config) < kLookaheadOfSmallBatches)
    return formatted("more batches to decode together: lookahead_batches={} (now {}); waves are {} % full",
                     kLookaheadOfSmallBatches, lookahead_of(config), percent(fill));
  if (seen.larger_waves)
    return formatted("larger waves: device_buffer_bytes={} and host_buffer_bytes={} (now {} and {})",
                     2 * config.device_buffer_bytes, 2 * config.host_buffer_bytes,
                     size_text(config.device_buffer_bytes), size_text(config.host_buffer_bytes));
  const Metric& decoded = seen.stats.decompress;
  if (seen.wave_encoded * decoded.output_bytes > seen.wave_decoded * decoded.input_bytes)
    return formatted("larger waves: device_buffer_bytes={} (now {})", 2 * config.device_buffer_bytes,
                     size_text(config.device_buffer_bytes));
  return "no setting: waves are as large as helps; a codec that decodes faster, such as lz4, would";
}

std::string advice_for(const std::string& binds, const Config& config, const Observation& seen) {
  if (binds == "consumer") return "no setting: batches wait for their consumer";
  if (binds == "latency")
    return with_cache(
        formatted("more batches in production at once: n_batches={} (now {}), lookahead_batches={} (now {})",
                  config.n_batches + 2, config.n_batches, std::max(lookahead_of(config), config.n_batches + 2),
                  lookahead_of(config)),
        config, seen);
  const std::int64_t misses = seen.stats.shard_idx_misses;
  if (binds == "plan" && misses > seen.stats.shard_idx_hits)
    return with_cache(formatted("a larger n_shards_meta_cache (now {}): {} of {} shard indices had to be read",
                                config.n_shards_meta_cache, misses, misses + seen.stats.shard_idx_hits),
                      config, seen);
  if (binds == "plan") return with_cache("larger crops or chunks: planning costs by the chunk", config, seen);
  if (binds == "bus")
    return with_cache("no setting: it carries encoded bytes already; a stronger codec would carry fewer", config, seen);
  if (binds == "read")
    return with_cache(formatted("{}, unless the storage itself is at its limit",
                                seen.on_device ? more_readers(config, seen) : more_threads(config, seen)),
                      config, seen);
  if (!seen.on_device) return with_cache(more_threads(config, seen), config, seen);
  if (binds == "place") return "no setting: a smaller dtype has fewer bytes to place";
  return larger_waves(config, seen);
}

std::string worded(const Explanation& out, const Observation& seen, bool is_of_network) {
  std::string all =
      formatted("{} GB/s over {} s: ", std::round(out.bytes_per_s / 1e7) / 100, std::round(seen.seconds * 10) / 10);
  if (is_of_network)
    all += formatted("remote stores bind: {}", out.binds == "latency"  ? "requests wait for their first byte"
                                               : out.binds == "server" ? "the server refuses requests"
                                                                       : "the network is at its rate");
  else if (out.binds == "latency")
    all += formatted("no stage is busy, the busiest {} %", percent(out.share));
  else if (out.binds == "consumer")
    all += "the consumer binds";
  else
    all += formatted("the bottleneck is {}, at {} % of its measured ceiling", out.binds, percent(out.share));
  all += formatted(". What would help: {}. Busy:", out.advice);
  for (const StageLoad& stage : out.stages) all += formatted(" {} {} %,", stage.name, percent(stage.busy));
  all.back() = ';';
  all += formatted(" the consumer waited {} % of the time.", percent(out.consumer_waited));
  if (seen.network.requests > 0) all += formatted(" {}.", network_text(seen.network, seen.seconds, seen.stats));
  if (seen.stats.slots_added > 0 || seen.added_slots > 0)
    all +=
        formatted(" It keeps batches, and holds {} now: {} slots are added, {} of at most {} (keep_bytes).", seen.held,
                  seen.added_slots, size_text(seen.stats.kept_bytes_committed), size_text(seen.keep_bytes));
  return all;
}

}  // namespace

Explanation explain(const Config& config, const Observation& seen) {
  Explanation out;
  if (seen.seconds <= 0 || seen.stats.assemble.output_bytes <= 0) {
    out.binds = "nothing yet";
    out.advice = "none: no batch was placed yet";
    out.text = "No batch was placed yet: there is nothing to explain.";
    return out;
  }
  out.bytes_per_s = seen.stats.assemble.output_bytes / seen.seconds;
  out.stages = stages_of(config, seen, out.bytes_per_s);
  out.consumer_waited =
      std::clamp((seen.stats.pop_wait_io.ms + seen.stats.pop_wait_compute.ms) / 1e3 / seen.seconds, 0.0, 1.0);
  const auto largest = std::max_element(out.stages.begin(), out.stages.end(),
                                        [](const StageLoad& a, const StageLoad& b) { return a.busy < b.busy; });
  out.share = load_of(out.stages, *largest, seen);
  if (out.consumer_waited < kHardlyWaited)
    out.binds = "consumer";
  else
    out.binds = out.share < kBusyEnough ? "latency" : largest->name;
  // Reads, and plans for which indices are read, are slow by what the network does.
  const bool waits_for_reads = out.binds == "latency" || out.binds == "read" || out.binds == "plan";
  const auto limit = waits_for_reads ? network_limit(seen.network, seen.seconds, config) : std::nullopt;
  if (limit) out.binds = limit->binds;
  if (seen.network.requests > 0) out.stages.push_back(network_stage(seen.network, seen.seconds, out.bytes_per_s));
  out.wanted_again = seen.chunks.again;
  out.encoded_bytes = seen.chunks.encoded_bytes;
  out.decoded_bytes = seen.chunks.decoded_bytes;
  out.advice = limit ? with_cache(limit->advice, config, seen) : advice_for(out.binds, config, seen);
  out.text = worded(out, seen, limit.has_value());
  return out;
}

}  // namespace damacy
