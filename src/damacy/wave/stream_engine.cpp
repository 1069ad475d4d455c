#include "damacy/wave/stream_engine.h"

#include "damacy/fetch/chunk_tasks.h"

namespace damacy {
namespace {

class StreamEngine final : public BatchEngine {
 public:
  StreamEngine(DeviceParts parts, Readers& readers, StatsBoard& board)
      : readers_(readers), waves_(std::move(parts), board) {}

  void take(const std::shared_ptr<ChunkTasks>& tasks, std::stop_token stop) override {
    const std::shared_ptr<WantedChunks> chunks = tasks;
    const auto cached_in = [&](ChunkCache* cache) -> std::shared_ptr<CachedChunks> {
      if (cache == nullptr) return nullptr;
      return std::make_shared<CachedChunks>(*tasks, cache, CachedChunks::Form::encoded);
    };
    waves_.add({&chunks, 1}, readers_, waves_.memory_of(readers_), std::move(stop),
               {cached_in(waves_.device_cache()), cached_in(waves_.host_cache())});
  }
  void end_batch() override { waves_.end_group(); }
  void flush() override { waves_.seal(); }
  void finish() noexcept override { waves_.finish(); }
  bool runs_ahead() const override { return true; }
  RowWriter& rows() override { return waves_.runner(); }
  std::uint64_t ready_stream() const override { return waves_.runner().native_handle(); }

  AtOnce at_once() const override {
    const WaveSizes& sizes = waves_.plan().waves;
    return {readers_.at_once(), WaveSizes::kDecodesAtOnce, sizes.slab, sizes.destination,
            sizes.slab < WaveSizes::kMostSlab};
  }
  ChunkCache* device_cache() noexcept override { return waves_.device_cache(); }
  ChunkCache* host_cache() noexcept override { return waves_.host_cache(); }
  std::size_t host_bytes() const override { return waves_.plan().host_bytes(); }
  std::size_t device_bytes() const override { return waves_.plan().device_bytes(); }

 private:
  Readers& readers_;
  DeviceWaves waves_;
};

}  // namespace

std::unique_ptr<BatchEngine> make_stream_engine(DeviceParts parts, Readers& readers, StatsBoard& board) {
  return std::make_unique<StreamEngine>(std::move(parts), readers, board);
}

}  // namespace damacy
