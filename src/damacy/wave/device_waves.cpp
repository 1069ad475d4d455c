#include "damacy/wave/device_waves.h"

#include <utility>

#include "damacy/batch/chunk_tasks.h"
#include "damacy/core/error.h"

namespace damacy {
namespace {

constexpr std::size_t kBusy = WaveSizes::kDecodesAtOnce;  // waves under way that keep a device busy

static_assert(WaveSizes::kPadding == Wave::kAlignment);

std::unique_ptr<ChunkCache> make_cache(PartId part, const CacheSizes& sizes, const std::shared_ptr<Alloc>& alloc) {
  if (sizes.entries == 0) return nullptr;
  return make_part(part, [&] { return std::make_unique<ChunkCache>(sizes, alloc); });
}

std::shared_ptr<void> lock_pages_of(const DeviceParts& parts) {
  if (parts.shared_cache == nullptr) return nullptr;
  return make_part(PartId::pinned_shared_cache, [&] { return parts.shared_cache->region().page_lock(*parts.device); });
}

Error stopped_meanwhile() {
  return Error(Status::shutdown, "the reads were stopped", "closed");
}

}  // namespace

Arena DeviceWaves::arena(PartId part, const std::shared_ptr<Alloc>& alloc, std::size_t bytes) {
  return make_part(part, [&] { return Arena(alloc, bytes); });
}

HostBuffer DeviceWaves::buffer(PartId part, std::size_t bytes) const {
  return make_part(part, [&] { return HostBuffer(parts_.device->device_memory(), bytes); });
}

Pool<WaveSlot> DeviceWaves::make_slots() const {
  const WaveSizes& waves = plan().waves;
  std::vector<std::unique_ptr<WaveSlot>> slots;
  for (std::size_t i = 0; i < waves.count; ++i) {
    auto slot = std::make_unique<WaveSlot>();
    slot->source = buffer(PartId::slabs, waves.slab + WaveSizes::kPadding);
    slot->destination = buffer(PartId::wave_chunks, waves.destination);
    slot->frames = parts_.decoder->make_list(waves.frames);
    slots.push_back(std::move(slot));
  }
  return Pool<WaveSlot>(std::move(slots));
}

DeviceWaves::DeviceWaves(DeviceParts parts, StatsBoard& board)
    : parts_(std::move(parts)),
      page_lock_(lock_pages_of(parts_)),
      device_cache_(make_cache(PartId::device_cache, plan().device_cache, parts_.device->device_memory())),
      host_cache_(make_cache(PartId::pinned_cache, plan().host_cache, parts_.device->pinned_memory())),
      pages_(std::make_shared<PageAlloc>()),
      staging_(arena(PartId::pinned_staging, parts_.device->pinned_memory(), plan().staging)),
      scratch_(arena(PartId::decoder_scratch, parts_.device->device_memory(), plan().waves.scratch)),
      images_(arena(PartId::images, parts_.device->pinned_memory(), plan().waves.images)),
      packed_(arena(PartId::packed_on_cores, pages_, plan().host_packed)),
      decoded_(arena(PartId::decoded_on_cores, pages_, plan().host_decoded)),
      slots_(make_slots()),
      runner_(make_part(PartId::repair,
                        [&] {
                          return WaveRunner(parts_.device, *parts_.decoder, *parts_.copier,
                                            {scratch_, images_, packed_, decoded_}, board);
                        })),
      former_({slots_, plan().waves.slab, plan().waves.destination, staging_}, runner_) {}

void DeviceWaves::add(std::span<const std::shared_ptr<WantedChunks>> chunks, Readers& readers,
                      const DecodeMemory& memory, std::stop_token stop, EncodedCaches caches, bool share_decodes) {
  former_.add({chunks, readers, memory, parts_.device_from_bytes, parts_.never_more_than_stored, std::move(caches),
               share_decodes},
              std::move(stop));
}

void DeviceWaves::end_group() {
  if (former_.sealed() - runner_.retired() < kBusy) former_.seal();
}

void DeviceWaves::Queued::fail(const Error& why) noexcept {
  for (const auto& one : chunks) one->fail_all(why);
}

void DeviceWaves::queue(std::vector<std::shared_ptr<WantedChunks>> chunks, Readers& readers, DecodeMemory memory) {
  Queued queued{std::move(chunks), {}, &readers, std::move(memory)};
  for (const auto& one : queued.chunks) queued.tasks.push_back(one->new_task());
  {
    const Lock lock(mutex_);
    if (!finished_) {
      if (!has_adder_) adder_ = Thread("damacy-form", [this] { add_queued(); });
      has_adder_ = true;
      queue_.push_back(std::move(queued));
      changed_.notify_one();
      return;
    }
  }
  queued.fail(stopped_meanwhile());
}

std::optional<DeviceWaves::Queued> DeviceWaves::take_first() noexcept {
  if (queue_.empty()) return std::nullopt;
  Queued queued = std::move(queue_.front());
  queue_.pop_front();
  return queued;
}

void DeviceWaves::add_queued() {
  const std::stop_token stop = stop_.get_token();
  const auto next = [&]() -> std::optional<Queued> {
    Lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this]() DAMACY_REQUIRES(mutex_) { return !queue_.empty(); })) return std::nullopt;
    return take_first();
  };
  while (auto queued = next()) add_one(*queued);
}

void DeviceWaves::add_one(Queued& queued) noexcept {
  const auto failure = failure_of([&] { add(queued.chunks, *queued.readers, queued.memory, stop_.get_token()); });
  if (failure) queued.fail(*failure);
  const bool is_last = [&] {
    const Lock lock(mutex_);
    return queue_.empty();
  }();
  if (is_last)
    seal();
  else
    end_group();
}

void DeviceWaves::end_queue() noexcept {
  {
    const Lock lock(mutex_);
    finished_ = true;
  }
  stop_.request_stop();
  adder_.join();
  const auto next = [this] {
    const Lock lock(mutex_);
    return take_first();
  };
  while (auto queued = next()) queued->fail(stopped_meanwhile());
}

void DeviceWaves::finish() noexcept {
  end_queue();
  former_.seal();
  runner_.finish();
}

namespace {

class StreamEngine final : public BatchEngine {
 public:
  StreamEngine(DeviceParts parts, Readers& readers, StatsBoard& board)
      : readers_(readers),
        form_(parts.device->is_host() ? CachedChunks::Form::described_on_host : CachedChunks::Form::described),
        waves_(std::move(parts), board) {}

  void take(const std::shared_ptr<ChunkTasks>& tasks, std::stop_token stop) override {
    tasks->count_wanted(/*parts=*/false);
    const std::shared_ptr<WantedChunks> chunks = tasks;
    const auto cached_in = [&](ChunkTier* cache) -> std::shared_ptr<CachedChunks> {
      if (cache == nullptr) return nullptr;
      return std::make_shared<CachedChunks>(*tasks, cache, form_);
    };
    waves_.add({&chunks, 1}, readers_, waves_.memory_of(readers_), std::move(stop),
               {cached_in(waves_.device_cache()), cached_in(waves_.host_cache())}, /*share_decodes=*/true);
  }
  void end_batch() override { waves_.end_group(); }
  void flush() override { waves_.seal(); }
  void finish() noexcept override { waves_.finish(); }
  bool runs_ahead() const override { return true; }
  RowWriter& rows() override { return waves_.runner().rows(); }
  std::uint64_t ready_stream() const override { return waves_.runner().native_handle(); }

  AtOnce at_once() const override {
    const WaveSizes& sizes = waves_.plan().waves;
    return {readers_.at_once(), WaveSizes::kDecodesAtOnce, sizes.slab, sizes.destination,
            sizes.slab < WaveSizes::kMostSlab};
  }
  ChunkTier* device_cache() noexcept override { return waves_.device_cache(); }
  ChunkTier* host_cache() noexcept override { return waves_.host_cache(); }
  std::size_t host_bytes() const override { return waves_.plan().host_bytes(); }
  std::size_t device_bytes() const override { return waves_.plan().device_bytes(); }

 private:
  Readers& readers_;
  const CachedChunks::Form form_;
  DeviceWaves waves_;
};

}  // namespace

std::unique_ptr<BatchEngine> make_stream_engine(DeviceParts parts, Readers& readers, StatsBoard& board) {
  return std::make_unique<StreamEngine>(std::move(parts), readers, board);
}

}  // namespace damacy
