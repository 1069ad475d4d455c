#include "damacy/batch/memory_plan.h"

#include "damacy/cache/shared/shared_entries.h"
#include "damacy/core/checked.h"
#include "damacy/core/formatted.h"
#include "damacy/device/arena.h"

namespace damacy {
namespace {

constexpr std::size_t kLeastAnswers = 32 << 20, kMostAnswers = 256 << 20;
constexpr std::size_t kMostDecodedAhead = 256 << 20;
constexpr std::int64_t kPerChunkSlack = 128 << 10;

// Staging memory of a device: more than what is kept warm for the crops of chunks that the host decodes alone.
constexpr std::size_t kMostStaging = 512 << 20;
constexpr std::size_t kMostImages = 128 << 20;
constexpr std::size_t kImagePadding = 1024;  // what the parts of an image may lose to alignment

constexpr std::size_t kBlockingThreads = 2;
constexpr std::size_t kWaveThreads = 4;

// Scratch bytes of a device's decoder per decoded byte.
constexpr std::size_t kUsualScratch = 2;

static_assert(SharedSizes::kPadding >= WaveBuffers::kSourcePadding);

constexpr std::uint64_t kLeastMetadata = 1 << 20;

std::size_t whole_pages(std::size_t bytes) {
  constexpr std::size_t kPage = Alloc::kAlignment;
  return std::max(bytes / kPage * kPage, kPage);
}

// From the two buffers and what the decoder takes.
void plan_waves(const Config& config, MemoryPlan& plan) {
  const auto host = static_cast<std::size_t>(config.host_buffer_bytes);
  const auto device = static_cast<std::size_t>(config.device_buffer_bytes);
  WaveSizes& waves = plan.waves;
  waves.count = WaveSizes::kWaves;
  plan.staging = whole_pages(std::min(host / 2, kMostStaging));
  waves.images = whole_pages(std::min(host / 8, kMostImages));
  waves.slab = whole_pages(std::min({device / 4 / waves.count, WaveSizes::kMostSlab, waves.images}));
  // Every wave has room for what it decodes, those that are decoded at once have scratch, too.
  const std::size_t rest = device - std::min(device / 2, waves.count * (waves.slab + Alloc::kAlignment));
  waves.destination = whole_pages(rest / (waves.count + WaveSizes::kDecodesAtOnce * kUsualScratch));
  waves.scratch = whole_pages(rest - std::min(rest, waves.count * waves.destination));
  // What is left of the images is for placements, which can do with less.
  const std::size_t frame_images = std::min(waves.images, waves.scratch / 2) / 4 * 3;
  waves.frames.scratch_bytes = waves.scratch / 2;
  waves.frames.image_bytes = frame_images - std::min(frame_images, kImagePadding);
  const auto sizes_of = [](std::int64_t bytes) {
    if (bytes == 0) return CacheSizes();
    return cache_sizes_with_notes(static_cast<std::uint64_t>(bytes), WaveBuffers::kSourcePadding);
  };
  plan.device_cache = sizes_of(config.device_cache_bytes);
  plan.host_cache = sizes_of(config.host_cache_bytes);
  plan.host_packed = host;
  plan.host_decoded = device;
}

// One chunk a reader, and none is larger than those admitted: of what the cap allows beyond that nothing is reserved.
std::size_t scratch_of_cores(const Config& config, std::int64_t largest_chunk) {
  const auto largest = static_cast<std::uint64_t>(std::max<std::int64_t>(largest_chunk, 1));
  const auto readers = static_cast<std::uint64_t>(config.n_io_threads + config.n_compute_threads);
  return std::min(static_cast<std::uint64_t>(config.device_buffer_bytes),
                  readers * round_up<std::uint64_t>(largest, Arena::kPieceAlignment));
}

CatalogLimits plan_catalog(const Config& config, std::uint64_t open_files) {
  CatalogLimits limits;
  limits.arrays = static_cast<std::size_t>(config.n_zarrs_meta_cache);
  limits.shards = static_cast<std::size_t>(config.n_shards_meta_cache);
  limits.bytes = std::max(static_cast<std::uint64_t>(config.host_buffer_bytes) / 4, kLeastMetadata);
  limits.open_files = static_cast<std::size_t>(std::clamp<std::uint64_t>(open_files / 4, 8, 4096));
  return limits;
}

// With at most as many threads as cores, reads are assumed to come from the page cache. The threads that feed a device,
// and its consumer, then need cores too. More threads than cores are configured for storage that makes them wait.
std::int64_t readers_at_once(std::int64_t wanted, std::int64_t cores) {
  return wanted > cores ? wanted : std::min(wanted, readers_beside_device(cores));
}

ThreadCounts plan_threads(const Config& config, const Machine& machine) {
  ThreadCounts threads;
  threads.readers = static_cast<std::size_t>(config.n_io_threads + config.n_compute_threads);
  threads.readers_at_once =
      static_cast<std::size_t>(readers_at_once(config.n_io_threads, static_cast<std::int64_t>(machine.cores)));
  threads.decoding = std::min(threads.readers, machine.cores);
  threads.blocking = kBlockingThreads;
  threads.waves = machine.gpu ? kWaveThreads : 0;
  threads.planners = 1;
  return threads;
}

// Without bytes.
MemoryPart described(PartId part) {
  using enum MemoryKind;
  using enum Taken;
  switch (part) {
    case PartId::staging:
      return {"staging", host, reserved, "host_buffer_bytes", "reads", {}};
    case PartId::scratch:
      return {"scratch", host, reserved, "device_buffer_bytes", "decoded chunks, one a reader", {}};
    case PartId::cache:
      return {"cache", host, reserved, "cache_bytes", "decoded chunks that are kept, and their index", {}};
    case PartId::decoded_ahead:
      return {"decoded ahead", host, as_used, "host_buffer_bytes", "decoded chunks that accepted batches want", {}};
    case PartId::slabs:
      return {"slabs", gpu, at_start, "device_buffer_bytes", "encoded chunks of all waves", {}};
    case PartId::wave_chunks:
      return {"decoded chunks", gpu, at_start, "device_buffer_bytes", "decoded chunks of all waves", {}};
    case PartId::decoder_scratch:
      return {"decoder scratch", gpu, at_start, "device_buffer_bytes", "decoding of waves, and images", {}};
    case PartId::repair:
      return {"repair", gpu, at_start, "", "chunks that the GPU gave up", {}};
    case PartId::pinned_staging:
      return {"staging", pinned, at_start, "host_buffer_bytes", "reads on their way to the GPU", {}};
    case PartId::images:
      return {"images", pinned, at_start, "host_buffer_bytes", "records that kernels read", {}};
    case PartId::pinned_repair:
      return {"pinned repair", pinned, at_start, "", "chunks that the GPU gave up", {}};
    case PartId::device_cache:
      return {"cache", gpu, at_start, "device_cache_bytes", "encoded chunks that are kept", {}};
    case PartId::device_cache_index:
      return {"index of the cache", host, reserved, "device_cache_bytes", "records and notes of those chunks", {}};
    case PartId::pinned_cache:
      return {"cache", pinned, at_start, "host_cache_bytes", "encoded chunks that are kept", {}};
    case PartId::pinned_cache_index:
      return {"index of the pinned cache", host, reserved, "host_cache_bytes", "records and notes of those chunks", {}};
    case PartId::shared_cache:
      return {"shared cache", host, as_used, "host_cache", "encoded chunks that processes share, and their index", {}};
    case PartId::pinned_shared_cache:
      return {
          "shared cache", pinned, at_start, "host_cache", "encoded chunks that processes share, and their index", {}};
    case PartId::disk_cache:
      return {"disk cache", host, as_used, "disk_cache_bytes", "what waits to be written to disk, and the index", {}};
    case PartId::answers:
      return {"answers ahead", host, as_used, "host_buffer_bytes", "what remote stores are asked for early", {}};
    case PartId::packed_on_cores:
      return {"encoded on cores", host, reserved, "host_buffer_bytes", "encoded chunks that the cores decode", {}};
    case PartId::decoded_on_cores:
      return {"decoded on cores", host, reserved, "device_buffer_bytes", "the same, decoded", {}};
    case PartId::metadata:
      return {"metadata", host, as_used, "host_buffer_bytes", "arrays, shard indices, shards decoded as a whole", {}};
    case PartId::slots:
      return {"slots", host, first_sample, "n_batches", "batches held or in production", {}};
    case PartId::added_slots:
      break;
  }
  return {"added slots", host, as_used, "keep_bytes", "more batches that the consumer holds", {}};
}

void add_slots(std::vector<MemoryPart>& parts, const Config& config, const std::optional<SlotPlan>& slots,
               bool keeps_batches, bool gpu) {
  MemoryPart stay = described(PartId::slots);
  MemoryPart added = described(PartId::added_slots);
  stay.kind = added.kind = gpu ? MemoryKind::gpu : MemoryKind::host;
  if (slots) {
    stay.bytes = static_cast<std::uint64_t>(slots->count * slots->bytes);
    added.bytes = static_cast<std::uint64_t>(slots->keep.bytes);
  } else if (config.keep_bytes || !keeps_batches) {
    added.bytes = static_cast<std::uint64_t>(config.keep_bytes.value_or(0));
  }
  parts.push_back(stay);
  parts.push_back(added);
}

}  // namespace

std::int64_t chunk_bytes_buffers_hold(const Config& c) {
  return std::max<std::int64_t>(0, (std::min(c.host_buffer_bytes, c.device_buffer_bytes) - kPerChunkSlack) / 2);
}

std::int64_t chunk_bytes_allowed(const Config& c) {
  return c.max_chunk_uncompressed_bytes > 0 ? c.max_chunk_uncompressed_bytes : kMaxChunkUncompressedBytes;
}

std::int64_t buffer_bytes_for(std::int64_t chunk_bytes) {
  return 2 * chunk_bytes + kPerChunkSlack;
}

MemoryPlan plan_memory(const Config& config, const Machine& machine) {
  MemoryPlan plan;
  plan.chunk_bytes = std::min(chunk_bytes_buffers_hold(config), chunk_bytes_allowed(config));
  plan.catalog = plan_catalog(config, machine.open_files);
  plan.threads = plan_threads(config, machine);
  if (machine.gpu) {
    plan_waves(config, plan);
  } else {
    plan.staging = static_cast<std::size_t>(config.host_buffer_bytes);
    plan.cache = static_cast<std::size_t>(config.cache_bytes);
    if (plan.cache == 0) plan.decoded_ahead = std::min(whole_pages(plan.staging / 4), kMostDecodedAhead);
    plan.scratch = scratch_of_cores(config, plan.chunk_bytes);
  }
  if (!config.shared_cache.empty()) plan.shared_cache = static_cast<std::size_t>(config.shared_cache_bytes);
  if (!config.disk_cache.empty())
    plan.disk_cache = disk_tier_sizes(static_cast<std::uint64_t>(config.disk_cache_bytes),
                                      static_cast<std::uint64_t>(config.host_buffer_bytes));
  plan.answers = std::clamp(static_cast<std::size_t>(config.host_buffer_bytes) / 2, kLeastAnswers, kMostAnswers);
  return plan;
}

// A wave of much memory has enough frames to keep a large GPU busy; a small GPU or host must have most of its own left.
MemoryPlan plan_single_reads(const Machine& machine) {
  constexpr std::uint64_t kLeastGpu = 512 << 20, kMostGpu = std::uint64_t{4} << 30, kPartOfGpu = 32;
  constexpr std::uint64_t kLeastHost = 256 << 20, kMostHost = 768 << 20, kPartOfHost = 32;
  Config config;
  config.device_buffer_bytes =
      static_cast<std::int64_t>(std::clamp(machine.gpu_bytes.value_or(0) / kPartOfGpu, kLeastGpu, kMostGpu));
  config.host_buffer_bytes =
      static_cast<std::int64_t>(std::clamp(machine.host_bytes.value_or(0) / kPartOfHost, kLeastHost, kMostHost));
  Machine with_gpu = machine;
  with_gpu.gpu = true;
  return plan_memory(config, with_gpu);
}

std::vector<MemoryPart> parts_of(const Config& config, const MemoryPlan& plan, const std::optional<SlotPlan>& slots,
                                 bool keeps_batches) {
  std::vector<MemoryPart> parts;
  const auto add = [&](PartId id, std::uint64_t bytes) {
    parts.push_back(described(id));
    parts.back().bytes = bytes;
  };
  constexpr std::uint64_t kRepair = WaveSizes::kRepairImage + WaveSizes::kRepairFill;
  const WaveSizes& waves = plan.waves;
  const bool gpu = waves.count > 0;
  if (gpu) {
    add(PartId::slabs, waves.count * (waves.slab + WaveSizes::kPadding));
    add(PartId::wave_chunks, waves.count * waves.destination);
    add(PartId::decoder_scratch, waves.scratch);
    add(PartId::repair, kRepair);
    add(PartId::pinned_staging, plan.staging);
    add(PartId::images, waves.images);
    add(PartId::pinned_repair, kRepair);
    if (plan.device_cache.entries > 0) {
      add(PartId::device_cache, plan.device_cache.space + plan.device_cache.padding);
      add(PartId::device_cache_index, plan.device_cache.index + plan.device_cache.notes);
    }
    if (plan.host_cache.entries > 0) {
      add(PartId::pinned_cache, plan.host_cache.space + plan.host_cache.padding);
      add(PartId::pinned_cache_index, plan.host_cache.index + plan.host_cache.notes);
    }
    if (plan.shared_cache > 0) add(PartId::pinned_shared_cache, plan.shared_cache);
    add(PartId::packed_on_cores, plan.host_packed);
    add(PartId::decoded_on_cores, plan.host_decoded);
  } else {
    add(PartId::staging, plan.staging);
    add(PartId::scratch, plan.scratch);
    if (plan.cache > 0) add(PartId::cache, plan.cache);
    if (plan.decoded_ahead > 0) add(PartId::decoded_ahead, plan.decoded_ahead);
    if (plan.shared_cache > 0) add(PartId::shared_cache, plan.shared_cache);
  }
  if (plan.disk_cache.bytes > 0) add(PartId::disk_cache, plan.disk_cache.memory());
  add(PartId::answers, plan.answers);
  add(PartId::metadata, plan.catalog.bytes);
  add_slots(parts, config, slots, keeps_batches, gpu);
  return parts;
}

void name_part(Error& error, PartId id) {
  if (error.status() != Status::oom) return;
  const MemoryPart part = described(id);
  error.with_note(part.setting.empty()
                      ? formatted("it is for {} ({})", part.name, part.use)
                      : formatted("it is for {} ({}), sized by {}", part.name, part.use, part.setting));
}

}  // namespace damacy
