#include "damacy/wave/stream_engine.h"

#include "damacy/wave/wave_former.h"
#include "damacy/wave/wave_runner.h"

namespace damacy {
namespace {

constexpr std::size_t kBusy = 2;  // waves under way that keep a device busy

static_assert(WaveSizes::kPadding == Wave::kAlignment);

class StreamEngine final : public BatchEngine {
 public:
  StreamEngine(StreamEngineParts parts, Readers& readers, StatsBoard& board)
      : parts_(std::move(parts)),
        readers_(readers),
        pages_(std::make_shared<PageAlloc>()),
        staging_(arena(PartId::pinned_staging, parts_.device->pinned_memory(), plan_.staging)),
        scratch_(arena(PartId::decoder_scratch, parts_.device->device_memory(), waves_.scratch)),
        images_(arena(PartId::images, parts_.device->pinned_memory(), waves_.images)),
        packed_(arena(PartId::packed_on_cores, pages_, plan_.host_packed)),
        decoded_(arena(PartId::decoded_on_cores, pages_, plan_.host_decoded)),
        slots_(make_slots()),
        runner_(make_part(PartId::repair,
                          [&] {
                            return WaveRunner(parts_.device, *parts_.decoder, *parts_.copier,
                                              {scratch_, images_, packed_, decoded_}, board);
                          })),
        former_({slots_, waves_.slab, staging_}, readers_, {packed_, decoded_, readers_.contexts()}, runner_) {}

  void take(const std::shared_ptr<ChunkTasks>& tasks, std::stop_token stop) override {
    former_.add(tasks, parts_.device_from_bytes, std::move(stop));
  }
  // If the device has little work, this batch starts now instead of waiting for a fuller wave.
  void end_batch() override {
    if (former_.sealed() - runner_.retired() < kBusy) former_.seal();
  }
  void flush() override { former_.seal(); }
  void finish() noexcept override {
    former_.seal();
    runner_.finish();
  }
  bool runs_ahead() const override { return true; }
  RowWriter& rows() override { return runner_; }
  std::uint64_t ready_stream() const override { return runner_.native_handle(); }

  AtOnce at_once() const override {
    return {readers_.at_once(), WaveSizes::kDecodesAtOnce, waves_.slab, waves_.destination,
            waves_.slab < WaveSizes::kMostSlab};
  }
  std::size_t host_bytes() const override { return plan_.host_bytes(); }
  std::size_t device_bytes() const override { return plan_.device_bytes(); }

 private:
  static Arena arena(PartId part, const std::shared_ptr<Alloc>& alloc, std::size_t bytes) {
    return make_part(part, [&] { return Arena(alloc, bytes); });
  }
  HostBuffer buffer(PartId part, std::size_t bytes) {
    return make_part(part, [&] { return HostBuffer(parts_.device->device_memory(), bytes); });
  }
  Pool<WaveSlot> make_slots() {
    std::vector<std::unique_ptr<WaveSlot>> slots;
    for (std::size_t i = 0; i < waves_.count; ++i) {
      auto slot = std::make_unique<WaveSlot>();
      slot->source = buffer(PartId::slabs, waves_.slab + WaveSizes::kPadding);
      slot->destination = buffer(PartId::wave_chunks, waves_.destination);
      slot->frames = parts_.decoder->make_list(waves_.frames);
      slots.push_back(std::move(slot));
    }
    return Pool<WaveSlot>(std::move(slots));
  }

  StreamEngineParts parts_;
  const MemoryPlan& plan_ = parts_.plan;
  const WaveSizes& waves_ = plan_.waves;
  Readers& readers_;
  std::shared_ptr<Alloc> pages_;
  Arena staging_;
  Arena scratch_;
  Arena images_;
  Arena packed_;
  Arena decoded_;
  Pool<WaveSlot> slots_;
  WaveRunner runner_;
  WaveFormer former_;
};

}  // namespace

std::unique_ptr<BatchEngine> make_stream_engine(StreamEngineParts parts, Readers& readers, StatsBoard& board) {
  return std::make_unique<StreamEngine>(std::move(parts), readers, board);
}

}  // namespace damacy
