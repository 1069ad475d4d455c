// Packs the chunks of planned batches into waves, in order, and submits their reads. The planner's thread only. Knows
// the capacity of a wave and what decodes each chunk; not streams.
#pragma once

#include <map>
#include <memory>
#include <stop_token>

#include "damacy/device/arena.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/fetch/readers.h"
#include "damacy/wave/frame_room.h"
#include "damacy/wave/wave.h"

namespace damacy {

// Memory of readers that decode for a wave.
struct HostDecodeMemory {
  Arena& packed;
  Arena& decoded;
  std::vector<DecodeContext>& contexts;
};

class WaveFormer {
 public:
  struct Memory {
    Pool<WaveSlot>& slots;
    std::uint64_t slab_bytes;  // of each slot, for chunks
    Arena& staging;
  };
  WaveFormer(const Memory& memory, Readers& readers, const HostDecodeMemory& host, WaveWatcher& watcher)
      : slots_(memory.slots),
        slab_bytes_(memory.slab_bytes),
        staging_(memory.staging),
        readers_(readers),
        host_(host),
        watcher_(watcher) {}

  void add(const std::shared_ptr<ChunkTasks>& tasks, std::uint64_t device_from_bytes, std::stop_token stop);
  void seal();
  std::uint64_t sealed() const noexcept { return sealed_; }  // waves so far

 private:
  friend class CropSink;
  struct Crop {
    std::uint32_t row;
    Box part;
    StagedRange staged;
  };
  struct CropsOfChunk {
    StagedChunk* staged = nullptr;
    std::vector<Crop> crops;
    bool done = false;
  };
  using Crops = std::map<std::uint32_t, CropsOfChunk>;

  template <class Add>
  void add_some(ChunkTasks& tasks, std::span<const std::uint32_t> chunks, Add add);
  void add_device_run(const std::shared_ptr<ChunkTasks>& tasks, const ChunkRun& run);
  void add_host_run(const std::shared_ptr<ChunkTasks>& tasks, const ChunkRun& run, bool partial);
  void add_crop_of(const std::shared_ptr<ChunkTasks>& tasks, std::uint32_t chunk, std::uint32_t row, const Box& part,
                   Crops& crops);
  void read_on_host(const std::shared_ptr<ChunkTasks>& tasks, const ChunkRun& run, bool partial, Crops crops);
  void add_fill_of(const std::shared_ptr<ChunkTasks>& tasks, std::uint32_t chunk);
  // A group that goes into one wave: its padded bytes, and the number of chunks that a device decodes.
  struct Need {
    std::uint64_t staged = 0, decoded = 0;
    std::uint64_t chunks = 0;
  };
  // True when the current wave, perhaps a new one, has room; the bytes are reserved. False also when reads that are not
  // responding hold too much staging memory.
  bool make_room(const Need& need, std::uint64_t most_lent);
  void require_room(std::uint64_t staged);  // throws Error(io, "deadline") in place of false
  void start_wave();
  bool frames_fit(const Need& need) const;
  bool fits_device(const ChunkTasks& tasks, const ChunkRun& run) const;

  Pool<WaveSlot>& slots_;
  std::uint64_t slab_bytes_;
  Arena& staging_;
  Readers& readers_;
  HostDecodeMemory host_;
  WaveWatcher& watcher_;
  std::shared_ptr<Wave> wave_;
  FrameRoom frame_room_;
  std::uint64_t enough_ = ~std::uint64_t{0};  // staged bytes, from which on a wave is sealed
  std::uint64_t sealed_ = 0;                  // waves so far
  std::stop_token stop_;
};

}  // namespace damacy
