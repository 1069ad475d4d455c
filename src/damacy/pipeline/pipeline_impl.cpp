#include "damacy/pipeline/pipeline_impl.h"

#include "damacy/batch/worker_engine.h"
#include "damacy/core/address_space.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/machine.h"
#include "damacy/core/mutex.h"
#include "damacy/core/rank_cores.h"
#include "damacy/core/size_text.h"
#include "damacy/device/device.h"
#include "damacy/wave/device_waves.h"

namespace damacy {
namespace {

Config checked(Config config) {
  try {
    check_config(config);
    check_gpu_memory(config, 0);
  } catch (Error& error) {
    throw error.in_stage("create");
  }
  return config;
}

std::string_view decoder_name(const Device* device) {
  return device == nullptr || device->is_host() ? "the cores" : "damacy's kernels";
}

// Sums of what is known before the first sample: "64.0 MiB of the host, 8.0 KiB of the GPU".
std::string memory_text(const Config& config, const MemoryPlan& plan) {
  constexpr std::pair<MemoryKind, const char*> kKinds[] = {
      {MemoryKind::host, "of the host"}, {MemoryKind::pinned, "page-locked"}, {MemoryKind::gpu, "of the GPU"}};
  const std::vector<MemoryPart> parts = parts_of(config, plan);
  std::string all;
  for (const auto& [kind, name] : kKinds) {
    std::uint64_t bytes = 0;
    for (const MemoryPart& part : parts)
      if (part.kind == kind && !is_of_slots(part)) bytes += part.bytes.value_or(0);
    if (bytes > 0) all += formatted("{}{} {}", all.empty() ? "" : ", ", size_text(bytes), name);
  }
  return all;
}

// For the one record that a pipeline starts with.
std::string settings_text(const Config& config, const MemoryPlan& plan, const Device* device) {
  return formatted(
      "n_io_threads {}, n_compute_threads {}, host_buffer_bytes {}, device_buffer_bytes {}, n_batches {}, zstd and LZ4 by {}; memory without slots: at most {}",
      config.n_io_threads, config.n_compute_threads, size_text(config.host_buffer_bytes),
      size_text(config.device_buffer_bytes), config.n_batches, decoder_name(device), memory_text(config, plan));
}

// Pages of a cache are taken as they are used, which must not be more than there are.
void check_caches(const Config& config, const Machine& machine) {
  const auto refuse = [](std::string text) { throw Error(Status::inval, std::move(text), "arguments"); };
  const auto check_encoded = [&](const char* field, std::int64_t bytes) {
    if (bytes > 0 && !machine.gpu)
      refuse(formatted("{} is for batches on a GPU: cache_bytes is the cache of batches on the host (got {})", field,
                       bytes));
  };
  check_encoded("device_cache_bytes", config.device_cache_bytes);
  check_encoded("host_cache_bytes", config.host_cache_bytes);
  if (config.cache_bytes == 0) return;
  if (machine.gpu)
    refuse(formatted(
        "cache_bytes is for batches on the host (device='cpu'): device_cache_bytes is the cache of batches on a GPU (got {})",
        config.cache_bytes));
  const auto wanted = static_cast<std::uint64_t>(config.cache_bytes);
  if (!machine.host_bytes || wanted <= *machine.host_bytes) return;
  throw Error(Status::oom, formatted("cache_bytes is too large: {} bytes wanted, {} free", wanted, *machine.host_bytes),
              "memory");
}

// Empty: all.
std::vector<int> cores_of(const Config& config, const Machine& machine, const Device* device) {
  if (config.thread_cores == ThreadCores::all || !machine.rank || machine.ranks < 2) return {};
  const auto near = cores_of_list(device == nullptr ? std::string() : device->near_cores());
  return share_of_cores(allowed_cores(), near, *machine.rank, machine.ranks);
}

// Its memory is that of all ranks of this host.
std::shared_ptr<SharedCache> open_shared_cache(const Config& config, const Machine& machine) {
  if (config.shared_cache.empty()) return nullptr;
  RegionRequest request;
  request.name = config.shared_cache;
  request.bytes = static_cast<std::uint64_t>(config.shared_cache_bytes);
  if (machine.host_bytes) request.free_bytes = *machine.host_bytes * machine.ranks;
  return std::make_shared<SharedCache>(SharedRegion::open(std::move(request)));
}

}  // namespace

PipelineImpl::PipelineImpl(Config config_, PipelineEnvironment environment)
    : config(checked(std::move(config_))), epoch(fork_epoch()), around(std::move(environment)), stream(config) {
  try {
    if (!around.clock) around.clock = std::make_shared<SteadyClock>();
    bind();
    Machine machine = read_machine();
    machine.gpu = engine_device != nullptr;
    if (machine.gpu) stream.look_further_ahead();
    check_caches(config, machine);
    const OnCores place(cores_of(config, machine, engine_device.get()));  // of all threads that are started here
    const MemoryPlan plan = plan_memory(config, machine);
    shared_cache = open_shared_cache(config, machine);
    attributes = std::make_shared<AttributeCache>(static_cast<std::size_t>(config.n_zarrs_meta_cache));
    if (plan.disk_cache.bytes > 0)
      disk_tier =
          std::make_shared<DiskTier>(DiskTierSettings{config.disk_cache, config.disk_cache_shared, plan.disk_cache});
    catalog = around.make_store ? std::make_shared<Catalog>(plan.catalog, around.make_store, disk_tier)
                                : std::make_shared<Catalog>(plan.catalog, disk_tier);
    slots = std::make_shared<Slots>(static_cast<std::size_t>(config.n_batches), batch_device,
                                    [wake = wakeup] { wake->notify(); });
    production = make_production(plan);
    log(LogLevel::info,
        formatted("pipeline on {}: {}", batch_device ? formatted("cuda:{}", batch_device->index()) : "cpu",
                  settings_text(config, plan, engine_device.get())));
    planner = Thread("damacy-plan", [this] { plan_batches(stopping.get_token()); });
  } catch (Error& error) {
    if (error.status() == Status::oom)
      error.with_note(formatted("host_buffer_bytes is {}, device_buffer_bytes is {}", config.host_buffer_bytes,
                                config.device_buffer_bytes));
    throw error.in_stage("create");
  } catch (const std::system_error& error) {
    throw Error(Status::oom,
                formatted("no thread could be started: {}{}", std::string_view(error.what()), address_space_note()),
                "memory")
        .in_stage("create");
  }
}

// Where batches live, and which memory they are made of. On the host there is no device to speak of.
void PipelineImpl::bind() {
  BoundDevice bound;
  if (around.device)
    bound.device = around.device;
  else
    bound = bind_device(config.device, around.make_context_current);
  if (!bound.why_host.empty())
    log(bound.is_unexpected ? LogLevel::warn : LogLevel::info,
        formatted("batches live on the host: {}", bound.why_host));
  if (around.device || !bound.device->is_host()) engine_device = bound.device;
  if (!bound.device->is_host()) batch_device = bound.device;
  if (batch_device)
    around.alloc = batch_device->device_memory();
  else if (!around.alloc)
    around.alloc = engine_device ? engine_device->device_memory() : std::make_shared<PageAlloc>();
}

std::shared_ptr<BatchPlanner> PipelineImpl::make_production(const MemoryPlan& plan) {
  auto readers = std::make_unique<Readers>(plan.threads, around.clock);
  auto engine = make_engine(plan, *readers);
  const bool keeps_chunks = engine->cache() != nullptr || engine->host_cache() != nullptr || plan.disk_cache.bytes > 0;
  const bool reads_ahead = !keeps_chunks && !engine->runs_ahead();
  return std::make_shared<BatchPlanner>(std::move(readers), std::move(engine), board, catalog, config.verify,
                                        plan.answers, reads_ahead);
}

std::unique_ptr<BatchEngine> PipelineImpl::make_engine(const MemoryPlan& plan, Readers& readers) {
  if (!engine_device) return std::make_unique<WorkerEngine>(plan, around.alloc, readers, board, shared_cache);
  DeviceParts parts;
  parts.plan = plan;
  parts.device = engine_device;
  parts.shared_cache = shared_cache;
  parts.device_from_bytes = around.device_from_bytes.value_or(bytes_worth_a_device(plan.threads.decoding));
  parts.decoder = engine_device->is_host() ? make_host_stream_decoder() : make_cuda_stream_decoder();
  if (around.make_copier)
    parts.copier = around.make_copier();
  else
    parts.copier = engine_device->is_host() ? make_host_copier() : make_cuda_copier();
  return make_stream_engine(std::move(parts), readers, board);
}

PipelineImpl::~PipelineImpl() {
  close();
}

void PipelineImpl::close() noexcept {
  if (forked()) return;
  // Destroyed after the lock is released: destroying a source or an exception may take a lock of the user.
  std::list<std::shared_ptr<QueuedSource>> dropped;
  std::list<SampleStream::Deferred> dropped_errors;
  {
    const Lock lock(wakeup->mutex);
    if (std::exchange(closed, true)) return;
    dropped = stream.take_sources();
    dropped_errors = stream.take_deferred();
    wakeup->changed.notify_all();
  }
  const double seconds = std::chrono::duration<double>(board.observed()).count();
  stopping.request_stop();
  stop_opening();
  planner.join();
  if (production && production->stop(production))
    log(LogLevel::warn,
        "storage does not answer: a pipeline was closed without waiting for reads that hang; they keep "
        "their threads and its buffers until they end");
  if (slots) slots->retire();
  if (catalog) catalog->clear();
  free_all(seconds);
  log_summaries(/*now_or_never=*/true);
}

// Keeps the last statistics, and the state by which waiting callers see that the pipeline is closed. Slots in use
// belong to their loans. A thread that is stuck in storage keeps readers and engine.
void PipelineImpl::free_all(double seconds) noexcept {
  // Destroyed from the last to the first, without the lock.
  std::shared_ptr<Catalog> last_catalog;
  std::shared_ptr<DiskTier> last_tier;
  std::shared_ptr<SharedCache> last_shared_cache;
  std::shared_ptr<Device> last_engine_device, last_batch_device;
  std::shared_ptr<Slots> last_slots;
  std::shared_ptr<BatchPlanner> last_production;
  PipelineEnvironment last_around;
  std::unordered_set<std::string> last_resolved;
  std::vector<PlannedSample> last_samples;
  std::shared_ptr<const BatchLayout> last_layout;
  for (bool any = true; any;) {
    std::shared_ptr<BatchJob> batch;
    const Lock lock(wakeup->mutex);
    batch = stream.take_batch();
    any = batch != nullptr;
  }
  const Lock lock(wakeup->mutex);
  if (!production) return;
  last_seen = observe();
  last_seen->seconds = seconds;
  last_seen->stats.requests_in_flight = 0;  // the catalog ends them
  last_catalog.swap(catalog);
  last_tier.swap(disk_tier);
  last_shared_cache.swap(shared_cache);
  last_engine_device.swap(engine_device);
  last_batch_device.swap(batch_device);
  last_slots.swap(slots);
  last_production.swap(production);
  last_around.device.swap(around.device);
  last_around.alloc.swap(around.alloc);
  last_around.make_store.swap(around.make_store);
  last_resolved.swap(resolved);
  last_samples = stream.take_samples();
  last_layout = stream.take_layout();
}

Error PipelineImpl::closed_error() {
  return Error(Status::shutdown, "the pipeline is closed", "closed").in_stage("closed");
}

void PipelineImpl::check_not_forked() const {
  if (forked())
    throw Error(Status::shutdown, "the pipeline belongs to the parent process", "forked").in_stage("forked");
}

void PipelineImpl::check_usable() const {
  check_not_forked();
  if (closed) throw closed_error();
}

void PipelineImpl::refuse_reentry(std::string_view stage) const {
  if (refilling && refiller == std::this_thread::get_id())
    throw Error(Status::inval, formatted("{} was called from inside a source of this pipeline", stage), "reentrant")
        .in_stage(stage);
}

void PipelineImpl::on_settled(BatchJob& job) {
  if (job.failure() || job.delivered_rows() == 0) job.take_loan().reset();  // before the lock: it notifies
  {
    const Lock lock(wakeup->mutex);
    stream.mark_settled(job);
    if (stream.has_unannounced()) wakeup->can_produce.notify_all();  // there is memory for its answers
  }
  wakeup->changed.notify_all();
}

bool PipelineImpl::can_refill() const {
  return !refilling && stream.has_sources() && stream.room() > 0;
}

// Whether it pays to wake a caller that waits for a batch: before the next pop the planner could run out of samples.
bool PipelineImpl::is_short_of_samples() const {
  return can_refill() && stream.is_half_empty();
}

bool PipelineImpl::pending() {
  check_not_forked();
  const Lock lock(wakeup->mutex);
  return !closed && stream.has_sources();
}

std::optional<bool> PipelineImpl::is_named() {
  check_not_forked();
  const Lock lock(wakeup->mutex);
  if (!stream.layout()) return std::nullopt;
  return stream.layout()->is_named();
}

std::string PipelineImpl::device() {
  check_not_forked();
  const Lock lock(wakeup->mutex);
  check_usable();
  return batch_device ? formatted("{}", batch_device->index()) : "cpu";
}

}  // namespace damacy
