// Computes the memory of a pipeline, part by part, and its number of threads from the settings and the machine. Pure.
// Engines allocate these sizes. Errors, `Config.memory()`, `damacy doctor` and the documentation show them. Without
// memory that depends on the arrays: of codecs (two more decoded chunks for each reader if a chain has several codecs,
// more for LZMA), records of chunks and rows in production. Also without thread stacks and a GPU's context.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/batch/slot_plan.h"
#include "damacy/cache/chunk_cache.h"
#include "damacy/cache/disk/disk_tier.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/core/error.h"
#include "damacy/core/machine.h"
#include "damacy/fetch/thread_counts.h"
#include "damacy/zarr/catalog_limits.h"

namespace damacy {

enum class MemoryKind {
  host,    // ordinary memory
  pinned,  // page-locked memory of the host
  gpu,
};
enum class Taken {
  at_start,      // allocated when the pipeline is made
  reserved,      // addresses when the pipeline is made, memory as it is used
  first_sample,  // when the first sample fixes the extents
  as_used,
};

enum class PartId {
  staging,        // on the cores
  scratch,        // on the cores
  cache,          // on the cores, if there is one
  decoded_ahead,  // on the cores, without a cache
  slabs,          // the following ones only with a device
  wave_chunks,
  decoder_scratch,
  repair,
  pinned_staging,
  images,
  pinned_repair,
  device_cache,  // if there is one
  device_cache_index,
  pinned_cache,
  pinned_cache_index,
  shared_cache,  // on the cores, if there is one
  pinned_shared_cache,
  packed_on_cores,
  decoded_on_cores,
  disk_cache,  // if there is one
  answers,     // always
  metadata,    // always
  slots,
  added_slots,
};

struct MemoryPart {
  std::string_view name;
  MemoryKind kind;
  Taken taken;
  std::string_view setting;  // the field of Config that changes it; empty: it is fixed
  std::string_view use;
  std::optional<std::uint64_t> bytes;  // at most. Empty: not known before the first sample
};

// Slots, or added slots.
constexpr bool is_of_slots(const MemoryPart& part) {
  return part.taken == Taken::first_sample || part.setting == "keep_bytes";
}

// Memory through which chunks pass on their way through a device, in bytes. All 0 without one.
struct WaveSizes {
  static constexpr std::size_t kWaves = 10;         // being read, going up, being decoded, waiting for a slot
  static constexpr std::size_t kDecodesAtOnce = 4;  // one wave alone leaves the device half idle
  // More would cost time when a pipeline is made, and give nothing: a slab of this size is enough for a decoder.
  static constexpr std::size_t kMostSlab = 96 << 20;
  static constexpr std::size_t kPadding = 256;  // of a slab
  // For chunks that the device gave up: placements, and a fill value.
  static constexpr std::size_t kRepairImage = 256 << 10;
  static constexpr std::size_t kRepairFill = 256;

  std::size_t count = 0;        // waves
  std::size_t slab = 0;         // of each: encoded chunks
  std::size_t destination = 0;  // of each: decoded chunks
  std::size_t scratch = 0;      // of all, on the device: decoder scratch, images, status words
  std::size_t images = 0;       // of all, pinned: images, status words
  FrameLimits frames;           // of a wave
};

struct MemoryPlan {
  std::size_t staging = 0;        // reads; pinned where there is a device
  std::size_t scratch = 0;        // on the cores: decoded chunks, one a reader
  std::size_t cache = 0;          // on the cores: decoded chunks that are kept, with their index
  std::size_t decoded_ahead = 0;  // on the cores without a cache: decoded chunks that accepted batches want again
  WaveSizes waves;
  CacheSizes device_cache;       // encoded chunks that are kept on the device; index and notes are on the host
  CacheSizes host_cache;         // the same, in page-locked memory
  std::size_t shared_cache = 0;  // on either: encoded chunks that processes share, with their index
  DiskTierSizes disk_cache;
  std::size_t answers = 0;  // on either: first answers of remote stores, for batches that are not planned yet
  // Next to a device, for chunks that the cores decode: encoded and decoded.
  std::size_t host_packed = 0, host_decoded = 0;
  CatalogLimits catalog;
  std::int64_t chunk_bytes = 0;  // the largest decoded chunk that is admitted
  ThreadCounts threads;

  // What a pipeline has allocated when it is made, without slots: staging and images, and device memory in its place.
  std::size_t host_bytes() const noexcept {
    return staging + cache + waves.images + device_cache.index + device_cache.notes + host_cache.space +
           host_cache.padding + host_cache.index + host_cache.notes + shared_cache + disk_cache.memory();
  }
  std::size_t device_bytes() const noexcept {
    return waves.count * (waves.slab + waves.destination) + waves.scratch + device_cache.space + device_cache.padding;
  }
};

// `machine.gpu`: chunks go through a device.
[[nodiscard]] MemoryPlan plan_memory(const Config& config, const Machine& machine);
// The sizes of single reads into a device: parts of the memory that is free on its GPU and host, within bounds.
[[nodiscard]] MemoryPlan plan_single_reads(const Machine& machine);

// All parts, each name once in its kind. The bytes of slots are known with `slots`; those of added slots also before
// the first sample, unless keep_bytes will be chosen for a loader.
[[nodiscard]] std::vector<MemoryPart> parts_of(const Config& config, const MemoryPlan& plan,
                                               const std::optional<SlotPlan>& slots = {}, bool keeps_batches = false);

// Makes a part. An error for lack of memory names it, and the setting that changes its size.
void name_part(Error& error, PartId part);
template <class Make>
auto make_part(PartId part, Make make) {
  try {
    return make();
  } catch (Error& error) {
    name_part(error, part);
    throw;
  }
}

// The largest decoded chunk, in bytes, that the buffers and the hard limit admit.
[[nodiscard]] std::int64_t chunk_bytes_buffers_hold(const Config& config);
[[nodiscard]] std::int64_t chunk_bytes_allowed(const Config& config);
// Bytes of both buffers that hold a decoded chunk of `bytes`.
[[nodiscard]] std::int64_t buffer_bytes_for(std::int64_t chunk_bytes);

// Readers that leave cores to the threads that feed a device, and to its consumer.
constexpr std::int64_t readers_beside_device(std::int64_t cores) {
  return std::max<std::int64_t>(1, cores - std::max<std::int64_t>(1, cores / 3));
}

}  // namespace damacy
