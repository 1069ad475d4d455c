#include "damacy/wave/stream_engine.h"

#include <algorithm>

#include "damacy/fetch/plan_portions.h"
#include "damacy/wave/wave_former.h"
#include "damacy/wave/wave_runner.h"

namespace damacy {
namespace {

constexpr std::size_t kWaves = 10;  // being read, going up, being decoded, waiting for a slot

// More would cost time when a pipeline is made, and give nothing: a slab of this size is enough for a decoder, and
// staging memory holds more than what is kept warm for the crops of chunks that the host decodes alone.
constexpr std::size_t kMostSlab = 96 << 20;
constexpr std::size_t kMostImages = 128 << 20;
constexpr std::size_t kMostStaging = 512 << 20;

constexpr std::size_t kImagePadding = 1024;  // what the parts of an image may lose to alignment

constexpr std::size_t kBusy = 2;  // waves under way that keep a device busy

// Sizes in bytes, from the two buffers and what the decoder takes.
struct WaveMemoryPlan {
  std::size_t staging, slab, destination, scratch, images, packed;
  FrameLimits frames;  // of a wave

  WaveMemoryPlan(const Config& config, const StreamDecoder& decoder) {
    const auto host = static_cast<std::size_t>(config.host_buffer_bytes);
    const auto device = static_cast<std::size_t>(config.device_buffer_bytes);
    const auto whole = [](std::size_t bytes) { return std::max<std::size_t>(bytes / 4096 * 4096, 4096); };
    staging = whole(std::min(host / 2, kMostStaging));
    images = whole(std::min(host / 8, kMostImages));
    slab = whole(std::min({device / 4 / kWaves, kMostSlab, images}));
    packed = host;  // ordinary memory, taken as it is used
    // Every wave has room for what it decodes, those that are decoded at once have scratch, too.
    const std::size_t rest = device - std::min(device / 2, kWaves * (slab + 4096));
    const double scratches = static_cast<double>(WaveRunner::kDecodesAtOnce) * decoder.usual_scratch();
    destination = whole(static_cast<std::size_t>(static_cast<double>(rest) / (kWaves + scratches)));
    scratch = whole(rest - std::min(rest, kWaves * destination));
    // What is left of the images is for placements, which can do with less.
    const std::size_t frame_images = std::min(images, scratch / 2) / 4 * 3;
    frames.scratch_bytes = scratch / 2;
    frames.image_bytes = frame_images - std::min(frame_images, kImagePadding);
  }
};

class StreamEngine final : public BatchEngine {
 public:
  StreamEngine(const Config& config, StreamEngineParts parts, std::shared_ptr<Catalog> catalog, StatsBoard& board)
      : plan_(config, *parts.decoder),
        parts_(std::move(parts)),
        catalog_(std::move(catalog)),
        board_(board),
        verify_(config.verify),
        pages_(std::make_shared<PageAlloc>()),
        staging_(parts_.device->pinned_memory(), plan_.staging),
        scratch_(parts_.device->device_memory(), plan_.scratch),
        images_(parts_.device->pinned_memory(), plan_.images),
        packed_(pages_, plan_.packed),
        decoded_(pages_, static_cast<std::size_t>(config.device_buffer_bytes)),
        slots_(make_slots()),
        runner_(parts_.device, *parts_.decoder, *parts_.copier, {scratch_, images_, packed_, decoded_}, board_),
        readers_(config, parts_.clock),
        former_({slots_, plan_.slab, staging_}, readers_, {packed_, decoded_, readers_.contexts()}, runner_) {}
  ~StreamEngine() override { stop(nullptr); }

  void produce(const std::shared_ptr<BatchJob>& job, std::stop_token stop) noexcept override {
    plan_portions(job, {&readers_, board_, catalog_, verify_}, stop, [&](const std::shared_ptr<ChunkTasks>& tasks) {
      former_.add(tasks, parts_.device_from_bytes, stop);
    });
    // If the device has little work, this batch starts now instead of waiting for a fuller wave.
    if (former_.sealed() - runner_.retired() < kBusy) former_.seal();
  }
  void flush() override { former_.seal(); }
  void ask(std::shared_ptr<StorageWork> work, std::size_t count, std::size_t lanes,
           std::function<void()> all_told) override {
    readers_.ask(std::move(work), count, lanes, std::move(all_told));
  }
  void abandon_overdue() noexcept override { readers_.abandon_overdue(); }
  bool runs_ahead() const override { return true; }
  RowWriter& rows() override { return runner_; }
  std::uint64_t ready_stream() const override { return runner_.native_handle(); }

  // The planner has ended: no more waves are formed.
  bool stop(const std::shared_ptr<void>& keep) noexcept override {
    const bool left_behind = readers_.stop_reading(keep);
    former_.seal();
    runner_.finish();
    return readers_.stop(keep) || left_behind;
  }
  AtOnce at_once() const override {
    return {readers_.at_once(), WaveRunner::kDecodesAtOnce, plan_.slab, plan_.destination, plan_.slab < kMostSlab};
  }
  std::size_t host_bytes() const override { return plan_.staging + plan_.images; }
  std::size_t device_bytes() const override { return kWaves * (plan_.slab + plan_.destination) + plan_.scratch; }

 private:
  Pool<WaveSlot> make_slots() {
    std::vector<std::unique_ptr<WaveSlot>> slots;
    for (std::size_t i = 0; i < kWaves; ++i) {
      auto slot = std::make_unique<WaveSlot>();
      slot->source = HostBuffer(parts_.device->device_memory(), plan_.slab + Wave::kAlignment);
      slot->destination = HostBuffer(parts_.device->device_memory(), plan_.destination);
      slot->frames = parts_.decoder->make_list(plan_.frames);
      slots.push_back(std::move(slot));
    }
    return Pool<WaveSlot>(std::move(slots));
  }

  WaveMemoryPlan plan_;
  StreamEngineParts parts_;
  std::shared_ptr<Catalog> catalog_;
  StatsBoard& board_;
  Verify verify_;
  std::shared_ptr<Alloc> pages_;
  Arena staging_;
  Arena scratch_;
  Arena images_;
  Arena packed_;
  Arena decoded_;
  Pool<WaveSlot> slots_;
  WaveRunner runner_;
  Readers readers_;
  WaveFormer former_;
};

}  // namespace

std::unique_ptr<BatchEngine> make_stream_engine(const Config& config, StreamEngineParts parts,
                                                std::shared_ptr<Catalog> catalog, StatsBoard& board) {
  return std::make_unique<StreamEngine>(config, std::move(parts), std::move(catalog), board);
}

}  // namespace damacy
