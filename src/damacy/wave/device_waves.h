// The way of chunks through one device: the memory of all waves, what forms waves, and the threads that take them
// through the device. Batches and single reads each have theirs. Knows sizes; not what the chunks are for.
#pragma once

#include <memory>
#include <stop_token>

#include "damacy/batch/memory_plan.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/device/device.h"
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
};

// What the cores decode while a GPU is busy with the first block of a wave: about 3 ms at 0.5 GB/s a core.
constexpr std::uint64_t bytes_worth_a_device(std::size_t cores) noexcept {
  return cores * (std::uint64_t{3} << 19);
}

class DeviceWaves {
 public:
  DeviceWaves(DeviceParts parts, StatsBoard& board);
  DeviceWaves(const DeviceWaves&) = delete;
  DeviceWaves& operator=(const DeviceWaves&) = delete;

  // One thread calls these three. May wait for memory. If add() throws, the caller fails the chunks.
  void add(std::span<const std::shared_ptr<WantedChunks>> chunks, Readers& readers, const DecodeMemory& memory,
           std::stop_token stop, EncodedCaches caches = {});
  // If the device has little work, what was added starts now instead of waiting for a fuller wave.
  void end_group();
  void seal() { former_.seal(); }  // what was added starts now

  // Finishes what was read. After the last call of a reader. Idempotent.
  void finish() noexcept;

  WaveRunner& runner() noexcept { return runner_; }
  const WaveRunner& runner() const noexcept { return runner_; }
  DecodeMemory memory_of(Readers& readers) noexcept { return {packed_, decoded_, readers.contexts()}; }
  // Of encoded chunks; null: none.
  ChunkCache* device_cache() noexcept { return device_cache_.get(); }
  ChunkCache* host_cache() noexcept { return host_cache_.get(); }
  const MemoryPlan& plan() const noexcept { return parts_.plan; }
  Device& device() const noexcept { return *parts_.device; }

 private:
  static Arena arena(PartId part, const std::shared_ptr<Alloc>& alloc, std::size_t bytes);
  HostBuffer buffer(PartId part, std::size_t bytes) const;
  Pool<WaveSlot> make_slots() const;

  DeviceParts parts_;
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
};

}  // namespace damacy
