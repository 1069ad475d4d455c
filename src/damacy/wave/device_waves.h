// The way of chunks through one device: the memory of all waves, what forms waves, and the threads that take them
// through the device. A pipeline has its own, whose planner adds chunks; single reads share one for each device, whose
// thread adds what they queue. Knows sizes; not what the chunks are for.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "damacy/batch/batch_engine.h"
#include "damacy/batch/memory_plan.h"
#include "damacy/cache/chunk_cache.h"
#include "damacy/cache/shared/shared_cache.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/device/device.h"
#include "damacy/fetch/readers.h"
#include "damacy/wave/wave_former.h"
#include "damacy/wave/wave_runner.h"

namespace damacy {

struct DeviceParts {
  MemoryPlan plan;
  std::shared_ptr<Device> device;
  std::unique_ptr<StreamDecoder> decoder;
  std::unique_ptr<Copier> copier;
  // Chunks that are added together and have fewer decoded bytes are decoded by readers: a device would not finish
  // sooner.
  std::uint64_t device_from_bytes = 0;
  bool never_more_than_stored = false;  // the device decodes also chunks whose crops are larger than what is stored
  std::shared_ptr<SharedCache> shared_cache = {};  // of encoded chunks, in place of the plan's host_cache; null: none
};

// What the cores decode while a GPU is busy with the first block of a wave: about 3 ms at 0.5 GB/s a core.
constexpr std::uint64_t bytes_worth_a_device(std::size_t cores) noexcept {
  return cores * (std::uint64_t{3} << 19);
}

class DeviceWaves {
 public:
  DeviceWaves(DeviceParts parts, StatsBoard& board);
  ~DeviceWaves() { finish(); }
  DeviceWaves(const DeviceWaves&) = delete;
  DeviceWaves& operator=(const DeviceWaves&) = delete;

  // One thread calls these three. May wait for memory. If add() throws, the caller fails the chunks.
  void add(std::span<const std::shared_ptr<WantedChunks>> chunks, Readers& readers, const DecodeMemory& memory,
           std::stop_token stop, EncodedCaches caches = {}, bool share_decodes = false);
  // If the device has little work, what was added starts now instead of waiting for a fuller wave.
  void end_group();
  void seal() { former_.seal(); }  // what was added starts now

  // In place of these three: chunks of one job, located. Reads that come together share waves. Any thread; waits for
  // nothing, because a thread of the waves adds them. After finish() they fail.
  void queue(std::vector<std::shared_ptr<WantedChunks>> chunks, Readers& readers, DecodeMemory memory);

  // Finishes what was read, and fails what is queued. After the last call of a reader. Idempotent.
  void finish() noexcept;

  WaveRunner& runner() noexcept { return runner_; }
  const WaveRunner& runner() const noexcept { return runner_; }
  DecodeMemory memory_of(Readers& readers) noexcept { return {packed_, decoded_, readers.contexts()}; }
  // Of encoded chunks; null: none.
  ChunkTier* device_cache() noexcept { return device_cache_.get(); }
  ChunkTier* host_cache() noexcept {
    return parts_.shared_cache != nullptr ? static_cast<ChunkTier*>(parts_.shared_cache.get()) : host_cache_.get();
  }
  const MemoryPlan& plan() const noexcept { return parts_.plan; }
  Device& device() const noexcept { return *parts_.device; }

 private:
  static Arena arena(PartId part, const std::shared_ptr<Alloc>& alloc, std::size_t bytes);
  HostBuffer buffer(PartId part, std::size_t bytes) const;
  Pool<WaveSlot> make_slots() const;
  struct Queued {
    std::vector<std::shared_ptr<WantedChunks>> chunks;
    std::vector<Task<Job>> tasks;  // until it is added
    Readers* readers;
    DecodeMemory memory;
    void fail(const Error& why) noexcept;
  };
  std::optional<Queued> take_first() noexcept DAMACY_REQUIRES(mutex_);
  void add_queued();
  void add_one(Queued& queued) noexcept;
  void end_queue() noexcept;

  DeviceParts parts_;
  std::shared_ptr<void> page_lock_;  // of the shared cache
  std::unique_ptr<ChunkCache> device_cache_, host_cache_;
  std::shared_ptr<Alloc> pages_;
  Arena staging_;
  Arena scratch_;
  Arena images_;
  Arena packed_;
  Arena decoded_;
  Pool<WaveSlot> slots_;
  WaveRunner runner_;
  WaveFormer former_;

  std::stop_source stop_;  // of what follows
  Mutex mutex_;
  StoppableCondition changed_;
  std::deque<Queued> queue_ DAMACY_GUARDED_BY(mutex_);
  bool finished_ DAMACY_GUARDED_BY(mutex_) = false;
  bool has_adder_ DAMACY_GUARDED_BY(mutex_) = false;
  Thread adder_;  // from the first call of queue() on; uses all of the above
};

// Places batches in the order of a device's streams. Readers read encoded chunks into pinned memory and describe their
// frames. One thread uploads pieces and enqueues decoding, one frees uploaded pieces, one enqueues placing, and one
// waits and settles batches. Chunks that a device cannot decode, or not in time, are decoded and cropped by readers,
// and only the crop is uploaded. The device is CUDA, or a host device on which every missing wait gives wrong bytes.
std::unique_ptr<BatchEngine> make_stream_engine(DeviceParts parts, Readers& readers, StatsBoard& board);

}  // namespace damacy
