// Packs the chunks of planned batches into waves, in order, and sends their reads off. The planner's thread only.
// Knows how much a wave holds and who decodes what; not streams.
#pragma once

#include <memory>
#include <stop_token>

#include "damacy/device/arena.h"
#include "damacy/pipeline/chunk_reads.h"
#include "damacy/pipeline/readers.h"
#include "damacy/pipeline/wave.h"

namespace damacy {

// Memory of readers that decode for a wave.
struct HostDecodeMemory {
  Arena& packed;
  Arena& decoded;
  std::vector<DecodeContext>& contexts;
};

class WaveFormer {
 public:
  WaveFormer(Pool<WaveSlot>& slots, Readers& readers, const HostDecodeMemory& host, WaveWatcher& watcher)
      : slots_(slots), readers_(readers), host_(host), watcher_(watcher) {}

  void add(const std::shared_ptr<ChunkTasks>& tasks, std::uint64_t device_from_bytes, std::stop_token stop);
  void seal();
  std::uint64_t sealed() const noexcept { return sealed_; }  // waves so far

 private:
  struct Crop {
    std::uint32_t row;
    Box part;
    StagedRange staged;
  };
  friend class CropSink;

  void add_device_run(const std::shared_ptr<ChunkTasks>& tasks, ChunkRun run);
  void add_host_run(const std::shared_ptr<ChunkTasks>& tasks, const ChunkRun& run, bool partial);
  void add_fill_of(const std::shared_ptr<ChunkTasks>& tasks, std::uint32_t chunk);
  // True when the current wave, perhaps a new one, has room.
  bool make_room(std::uint64_t staged, std::uint64_t decoded);
  bool fits_device(const ChunkTasks& tasks, const ChunkRun& run) const;

  Pool<WaveSlot>& slots_;
  Readers& readers_;
  HostDecodeMemory host_;
  WaveWatcher& watcher_;
  std::shared_ptr<Wave> wave_;
  std::uint64_t sealed_ = 0;  // waves so far
  std::stop_token stop_;
};

}  // namespace damacy
