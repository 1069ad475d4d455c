// Adds slots, finds idle ones, and frees their memory.
#include <algorithm>
#include <utility>

#include "damacy/batch/slots.h"
#include "damacy/core/error.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"

namespace damacy {

bool Slots::reserve() noexcept {
  const Lock lock(mutex_);
  if (retired_ || bytes_ == 0 || added_bytes_ > added_cap_ || bytes_ > added_cap_ - added_bytes_) return false;
  added_bytes_ += bytes_;
  return true;
}

Slots::Growth Slots::add() noexcept {
  if (!reserve()) return Growth::at_cap;
  try {
    place(make_memory(bytes_of_one()));
    return Growth::added;
  } catch (const std::exception&) {
    const Lock lock(mutex_);
    added_bytes_ -= bytes_;
    refusal_ = current_error();
    return Growth::no_memory;
  }
}

Slots::Memory Slots::make_memory(std::size_t bytes) {
  Memory memory;
  const Lock lock(ordered_mutex_);
  if (!ordered_) ordered_ = device_ ? device_->make_ordered_memory() : nullptr;
  if (*ordered_)
    memory.ordered = OrderedBuffer(*ordered_, bytes);
  else
    memory.plain = HostBuffer(alloc_, bytes);
  return memory;
}

void Slots::place(Memory memory) {
  const Lock lock(mutex_);
  if (retired_) throw Error(Status::shutdown, "the pipeline is closed", "closed");
  Slot added;
  if (memory.ordered.ready().state() != nullptr) added.use.last.fences.push_back(memory.ordered.ready());
  added.use.free_since = handed_out_;
  added.memory = std::move(memory);
  const auto dropped =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.memory.is_there(); });
  if (dropped != slots_.end())
    *dropped = std::move(added);
  else
    slots_.push_back(std::move(added));
  refusal_.reset();
}

bool Slots::is_short() const {
  const Lock lock(mutex_);
  return bytes_ > 0 && added_bytes_ <= added_cap_ && bytes_ <= added_cap_ - added_bytes_ &&
         not_held() < std::max<std::size_t>(1, count_ - 1);
}

bool Slots::is_idle(std::size_t slot) const noexcept {
  return slot >= count_ && slots_[slot].is_free() && handed_out_ - slots_[slot].use.free_since >= kIdleBatches;
}

bool Slots::any_idle() const {
  const Lock lock(mutex_);
  for (std::size_t i = count_; i < slots_.size(); ++i)
    if (is_idle(i)) return true;
  return false;
}

std::size_t Slots::drop_idle() noexcept {
  for (std::size_t count = 0;; ++count) {
    Memory dropped;
    {
      const Lock lock(mutex_);
      for (std::size_t i = count_; i < slots_.size() && !dropped.is_there(); ++i)
        if (is_idle(i)) dropped = take_memory(slots_[i]);
    }
    if (!dropped.is_there()) return count;
    dropped = {};  // under no lock
    const Lock lock(mutex_);
    added_bytes_ -= bytes_;
  }
}

// Frees the memory after its last users. If no stream can wait for them this thread waits, as the driver's own free
// does for memory without stream order.
Slots::Memory Slots::take_memory(Slot& slot) noexcept {
  Memory memory = std::exchange(slot.memory, {});
  Use use = std::exchange(slot.use, {});
  if (memory.ordered.data() == nullptr) return memory;
  try {
    if (use.unfenced) (use.host_fence ? *use.host_fence : device_->fence_all(/*spare_captures=*/true)).wait();
    memory.ordered.free_after(std::move(use.last.fences));
  } catch (const std::exception&) {
    log_current_error(LogLevel::warn);
    memory.ordered.forget();
  }
  return memory;
}

Slots::Counts Slots::counts() const noexcept {
  const Lock lock(mutex_);
  Counts out;
  out.slots = bytes_ > 0 ? added_bytes_ / bytes_ : 0;
  out.bytes = added_bytes_;
  for (const Slot& slot : slots_) out.held += slot.use.lent && slot.use.held ? 1 : 0;
  return out;
}

Slots::Added Slots::added() const {
  const Counts now = counts();
  const Lock lock(mutex_);
  return {now, refusal_ ? refusal_->message() : ""};
}

}  // namespace damacy
