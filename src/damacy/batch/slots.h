// The memory of batches: slots, each lent to one batch at a time and returned by its last user. Their number is fixed,
// except that slots are added while the consumer holds batches, up to a cap in bytes, and freed when they are not
// needed. Outlives the pipeline: a tensor made from a batch keeps its slot's memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/device/ordered_alloc.h"

namespace damacy {

class Slots;

// A loan of one slot. Shared by the batch and every tensor made from it; the last one returns the slot.
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

  // Records consumers' work. A stream handle is not used after the call. The legacy default stream always exists, so
  // its work can be fenced later. For any other stream, all work of the context must have passed.
  void used_on_legacy_stream() noexcept { on_legacy_ = true; }
  // `in_capture`: the caller is capturing a graph on that stream.
  void used_on_some_stream(bool in_capture = false) noexcept {
    if (in_capture) in_capture_ = true;
    on_some_ = true;
  }
  void used_until(Event event);
  // Later work of `stream` comes after the work that consumers have queued so far. The caller waits if a stream cannot,
  // while a graph is being captured.
  void order_after_consumers(Device& device, Stream& stream) const;

 private:
  friend class Slots;
  std::vector<Event> take_fences();
  std::shared_ptr<Slots> slots_;
  std::size_t slot_;
  std::span<std::byte> memory_;
  std::vector<Event> ready_;
  std::uint64_t epoch_;
  std::atomic<bool> on_legacy_{false};
  std::atomic<bool> on_some_{false};
  std::atomic<bool> in_capture_{false};
  Mutex mutex_;
  std::vector<Event> fences_ DAMACY_GUARDED_BY(mutex_);
};

class Slots : public std::enable_shared_from_this<Slots> {
 public:
  // An added slot is dropped when it has been free while so many batches were handed out.
  static constexpr std::uint64_t kIdleBatches = 64;

  // `freed` is called without a lock after a loan ended, until retire().
  // `device` is where consumers' work is fenced; null: batches live on the host, nothing to fence.
  Slots(std::size_t count, std::shared_ptr<Device> device, std::function<void()> freed)
      : count_(count),
        device_(std::move(device)),
        slots_(count),
        freed_(std::make_shared<const std::function<void()>>(std::move(freed))) {}

  // Sizes are fixed once, by the first sample. Throws Error(oom) and stays without memory.
  // `added_bytes`: the most that added slots may take.
  void allocate(const std::shared_ptr<Alloc>& alloc, std::size_t bytes, std::uint64_t added_bytes = 0);
  bool allocated() const;
  std::size_t bytes_of_one() const;

  // Empty if all slots are lent, or if max(1, count - 1) of them (count if the consumer holds none) are lent to batches
  // that the consumer does not have yet: added slots are for held batches, and do not make reading run further ahead.
  // Also empty if drop_idle() took the slot after any_free() was true.
  std::shared_ptr<SlotLoan> lend(std::int64_t batch_id);
  bool any_free();
  // A slot waits for its fence, which has no notification: call any_free() again soon.
  bool any_unfenced() const;
  void hold(std::size_t slot) noexcept;            // popped: now the consumer's
  std::vector<std::int64_t> held_batches() const;  // when the consumer has all slots; else empty

  // Added slots. These three may call the allocator; the caller holds no lock that others wait for.
  enum class Growth { added, at_cap, no_memory };
  Growth add() noexcept;
  std::size_t drop_idle() noexcept;  // how many
  // Whether the consumer holds so many slots that fewer than max(1, count - 1) are left, and the cap allows another.
  bool is_short() const;
  bool any_idle() const;
  struct Counts {
    std::size_t slots = 0;  // added ones
    std::uint64_t bytes = 0;
    std::size_t held = 0;  // of all slots, by the consumer
  };
  Counts counts() const noexcept;
  struct Added : Counts {
    std::string refusal;  // why the last allocation failed; empty: it did not
  };
  Added added() const;

  // The pipeline is closing: frees idle memory and makes no more calls to `freed`. Lent slots are freed by their last
  // user.
  void retire() noexcept;

 private:
  friend class SlotLoan;
  struct LastUse {
    std::vector<Event> fences;
    bool on_legacy_stream = false;
    bool on_some_stream = false;
    bool in_capture = false;
  };
  struct Use {
    bool lent = false;
    bool held = false;
    std::int64_t batch_id = 0;
    LastUse last;                     // of the batch before
    bool unfenced = false;            // its fence could not be made yet, or
    std::optional<Event> host_fence;  // has to pass before the slot is lent: no stream can wait for it
    std::uint64_t free_since = 0;     // in batches handed out
  };
  // Either way of having memory; neither: the slot was dropped.
  struct Memory {
    HostBuffer plain;
    OrderedBuffer ordered;
    bool is_there() const noexcept { return plain.data() != nullptr || ordered.data() != nullptr; }
    std::span<std::byte> bytes() const noexcept { return plain.data() != nullptr ? plain.bytes() : ordered.bytes(); }
  };
  struct Slot {
    Memory memory;
    Use use;
    bool is_free() const noexcept { return memory.is_there() && !use.lent && !use.unfenced; }
  };

  void give(SlotLoan& loan) noexcept;
  void fence(Use& use) noexcept;
  Memory take_memory(Slot& slot) noexcept;
  Memory make_memory(std::size_t bytes);
  bool reserve() noexcept;
  void place(Memory memory);
  bool is_idle(std::size_t slot) const noexcept DAMACY_REQUIRES(mutex_);
  bool may_lend() const noexcept DAMACY_REQUIRES(mutex_);
  std::size_t not_held() const noexcept DAMACY_REQUIRES(mutex_);

  const std::size_t count_;
  const std::shared_ptr<Device> device_;
  mutable Mutex mutex_;
  std::vector<Slot> slots_ DAMACY_GUARDED_BY(mutex_);  // the first `count` stay
  std::size_t bytes_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::uint64_t handed_out_ DAMACY_GUARDED_BY(mutex_) = 0;
  bool retired_ DAMACY_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const std::function<void()>> freed_ DAMACY_GUARDED_BY(mutex_);  // null: retired

  std::shared_ptr<Alloc> alloc_;
  Mutex ordered_mutex_;
  std::optional<std::shared_ptr<OrderedAlloc>> ordered_
      DAMACY_GUARDED_BY(ordered_mutex_);                     // empty: not asked for yet; null: the device has none
  std::uint64_t added_cap_ DAMACY_GUARDED_BY(mutex_) = 0;    // bytes
  std::uint64_t added_bytes_ DAMACY_GUARDED_BY(mutex_) = 0;  // taken, or being taken
  std::optional<Error> refusal_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
