// The storage of batches: a fixed number of slots, each lent to one batch at a time and given back with its last user.
// Outlives the pipeline: a tensor made from a batch keeps its slot's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "damacy/core/fork.h"
#include "damacy/device/alloc.h"
#include "damacy/device/device.h"

namespace damacy {

class Slots;

// One slot on loan. Shared by the batch and every tensor made from it; the last to let go gives it back.
class SlotLoan {
 public:
  SlotLoan(std::shared_ptr<Slots> slots, std::size_t slot, std::span<std::byte> memory) noexcept
      : slots_(std::move(slots)), slot_(slot), memory_(memory), epoch_(fork_epoch()) {}
  ~SlotLoan();
  SlotLoan(const SlotLoan&) = delete;
  SlotLoan& operator=(const SlotLoan&) = delete;

  std::span<std::byte> memory() const noexcept { return memory_; }
  // Consumers' work that must have passed before the first write.
  std::span<const Event> ready() const noexcept { return ready_; }
  std::size_t slot() const noexcept { return slot_; }

 private:
  std::shared_ptr<Slots> slots_;
  std::size_t slot_;
  std::span<std::byte> memory_;
  std::vector<Event> ready_;
  std::uint64_t epoch_;
};

class Slots : public std::enable_shared_from_this<Slots> {
 public:
  // `freed` is called without a lock after a loan ended, until retire().
  Slots(std::size_t count, std::function<void()> freed)
      : in_use_by_(count), buffers_(count), freed_(std::move(freed)) {}

  // Sizes are fixed once, by the first sample. Throws Error(oom) and stays without memory.
  void allocate(const std::shared_ptr<Alloc>& alloc, std::size_t bytes);
  bool allocated() const;
  std::size_t bytes_of_one() const;

  // Empty: all are lent.
  std::shared_ptr<SlotLoan> lend(std::int64_t batch_id);
  bool any_free() const;
  void hold(std::size_t slot);                     // popped: now the consumer's
  std::vector<std::int64_t> held_batches() const;  // when the consumer has all slots; else empty

  // The pipeline is closing: frees idle memory, calls nobody any more; lent slots go with their last user.
  void retire();

 private:
  friend class SlotLoan;
  void give(std::size_t slot) noexcept;

  struct Use {
    bool lent = false;
    bool held = false;
    std::int64_t batch_id = 0;
  };
  mutable std::mutex mutex_;
  std::vector<Use> in_use_by_;
  std::vector<HostBuffer> buffers_;
  std::size_t bytes_ = 0;
  bool retired_ = false;
  std::function<void()> freed_;
};

}  // namespace damacy
