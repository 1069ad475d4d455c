// Pinned host memory between files and devices: blocks cut into slots, each with the event after which it may be
// written again, and a stream for their copies. Knows how many bytes are pinned; not files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/device/fenced_memory.h"

namespace damacy {

// Up to four slots of at least 64 KiB; a smaller block is one slot.
class StagingBlock {
 public:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kLeastSlot = 64 << 10;

  StagingBlock(std::shared_ptr<Device> device, std::size_t bytes);
  StagingBlock(const StagingBlock&) = delete;
  StagingBlock& operator=(const StagingBlock&) = delete;
  ~StagingBlock();

  // In turn. What was copied from or to it may not have ended: see FencedMemory::ready().
  FencedMemory& next() noexcept {
    current_ = (current_ + 1) % slots_.size();
    return slots_[current_];
  }
  std::size_t slots() const noexcept { return slots_.size(); }
  std::size_t size() const noexcept { return memory_.size(); }
  Stream& stream() noexcept { return *stream_; }
  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  void spoil() noexcept { spoilt_ = true; }  // copies without an event may be running: not to be lent again
  bool spoilt() const noexcept { return spoilt_; }

 private:
  std::shared_ptr<Device> device_;
  HostBuffer memory_;
  std::unique_ptr<Stream> stream_;
  std::vector<FencedMemory> slots_;
  std::size_t current_ = 0;
  bool spoilt_ = false;
};

class StagingPool {
 public:
  static StagingPool& process();

  class Lease {  // gives the block back
   public:
    Lease(StagingPool* pool, std::unique_ptr<StagingBlock> block) noexcept : pool_(pool), block_(std::move(block)) {}
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (block_ != nullptr) pool_->give(std::move(block_));
    }
    StagingBlock& operator*() const noexcept { return *block_; }
    StagingBlock* operator->() const noexcept { return block_.get(); }

   private:
    StagingPool* pool_;
    std::unique_ptr<StagingBlock> block_;
  };

  // A block for that device, of the configured size. Waits while it would exceed the limit of pinned bytes; one block
  // is always allowed.
  Lease take(const std::shared_ptr<Device>& device);
  std::uint64_t free_idle();  // frees unused blocks; returns their bytes

 private:
  void give(std::unique_ptr<StagingBlock> block) noexcept;
  std::unique_ptr<StagingBlock> take_idle(const Device& device, std::size_t bytes) DAMACY_REQUIRES(mutex_);
  void retire(std::list<std::unique_ptr<StagingBlock>>& into, std::size_t other_than) DAMACY_REQUIRES(mutex_);

  Mutex mutex_;
  Condition changed_;
  std::list<std::unique_ptr<StagingBlock>> idle_ DAMACY_GUARDED_BY(mutex_);  // used last first
  std::uint64_t pinned_ DAMACY_GUARDED_BY(mutex_) = 0;
  bool had_first_ DAMACY_GUARDED_BY(mutex_) = false;
};

}  // namespace damacy
