// The storage of batches: a fixed number of slots, each lent to one batch at a time and given back with its last user.
// Outlives the pipeline: a tensor made from a batch keeps its slot's memory.
#pragma once

#include <atomic>
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
  std::size_t slot() const noexcept { return slot_; }
  // Consumers' work that must have passed before the first write.
  std::span<const Event> ready() const noexcept { return ready_; }

  // What consumers do with it. A handle is not used after the call that names it: of the legacy
  // default stream, which lives for ever, that much is known; of any other only that all work of the context must have
  // passed.
  void used_on_legacy_stream() noexcept { on_legacy_ = true; }
  // `in_capture`: the caller is capturing a graph on that stream.
  void used_on_some_stream(bool in_capture = false) noexcept {
    if (in_capture) in_capture_ = true;
    on_some_ = true;
  }
  void used_until(Event event);
  // Later work of `stream` comes after what consumers have queued so far. The caller waits where no stream can: while a
  // graph is being captured.
  void order_after_consumers(Device& device, Stream& stream) const;

 private:
  friend class Slots;
  std::shared_ptr<Slots> slots_;
  std::size_t slot_;
  std::span<std::byte> memory_;
  std::vector<Event> ready_;
  std::uint64_t epoch_;
  std::atomic<bool> on_legacy_{false};
  std::atomic<bool> on_some_{false};
  std::atomic<bool> in_capture_{false};
  std::mutex mutex_;
  std::vector<Event> fences_;
};

class Slots : public std::enable_shared_from_this<Slots> {
 public:
  // `freed` is called without a lock after a loan ended, until retire().
  // `device` is where consumers' work is fenced; null: batches live on the host, nothing to fence.
  Slots(std::size_t count, std::shared_ptr<Device> device, std::function<void()> freed)
      : device_(std::move(device)),
        in_use_by_(count),
        buffers_(count),
        freed_(std::make_shared<const std::function<void()>>(std::move(freed))) {}

  // Sizes are fixed once, by the first sample. Throws Error(oom) and stays without memory.
  void allocate(const std::shared_ptr<Alloc>& alloc, std::size_t bytes);
  bool allocated() const;
  std::size_t bytes_of_one() const;

  // Empty: all are lent.
  std::shared_ptr<SlotLoan> lend(std::int64_t batch_id);
  bool any_free();
  // A slot waits for its fence, which nobody will announce: ask any_free() again soon.
  bool any_unfenced() const;
  void hold(std::size_t slot);                     // popped: now the consumer's
  std::vector<std::int64_t> held_batches() const;  // when the consumer has all slots; else empty

  // The pipeline is closing: frees idle memory, calls nobody any more; lent slots go with their last user.
  void retire() noexcept;

 private:
  friend class SlotLoan;
  struct LastUse {
    std::vector<Event> fences;
    bool on_legacy_stream = false;
    bool on_some_stream = false;
    bool in_capture = false;
  };
  void give(std::size_t slot, LastUse use) noexcept;
  void fence(std::size_t slot) noexcept;

  struct Use {
    bool lent = false;
    bool held = false;
    std::int64_t batch_id = 0;
    LastUse last;                     // of the batch before
    bool unfenced = false;            // its fence could not be made yet, or
    std::optional<Event> host_fence;  // has to pass before the slot is lent: no stream can wait for it
  };
  const std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::vector<Use> in_use_by_;
  std::vector<HostBuffer> buffers_;
  std::size_t bytes_ = 0;
  bool retired_ = false;
  std::shared_ptr<const std::function<void()>> freed_;  // null: retired
};

}  // namespace damacy
