#include "damacy/batch/slots.h"

#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"

namespace damacy {

SlotLoan::~SlotLoan() {
  if (epoch_ != fork_epoch()) {
    // A tensor is destroyed in a forked child, where the lock may be held forever.
    new std::shared_ptr<Slots>(std::move(slots_));
    return;
  }
  slots_->give(*this);
}

void SlotLoan::used_until(Event event) {
  const Lock lock(mutex_);
  fences_.push_back(std::move(event));
}

std::vector<Event> SlotLoan::take_fences() {
  const Lock lock(mutex_);
  return std::move(fences_);
}

void SlotLoan::order_after_consumers(Device& device, Stream& stream) const {
  if (!on_some_ && !on_legacy_) return;
  std::optional<Event> queued;
  if (!on_some_) queued = device.try_fence(0);
  if (!queued) queued = device.fence_all(/*spare_captures=*/!on_some_ || in_capture_);
  if (queued->for_streams())
    stream.wait(*queued);
  else
    queued->wait();
}

void Slots::allocate(const std::shared_ptr<Alloc>& alloc, std::size_t bytes, std::uint64_t added_bytes) {
  std::vector<HostBuffer> made;
  for (std::size_t i = 0; i < count_; ++i) made.emplace_back(alloc, bytes);
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < count_; ++i) slots_[i].memory.plain = std::move(made[i]);
  alloc_ = alloc;
  bytes_ = bytes;
  added_cap_ = added_bytes;
}

bool Slots::allocated() const {
  return bytes_of_one() > 0;
}

std::size_t Slots::bytes_of_one() const {
  const Lock lock(mutex_);
  return bytes_;
}

// However many batches the consumer holds, as many are in production as with one held batch and no added slots. Added
// slots become idle when the consumer holds fewer batches, because the other slots are used first.
bool Slots::may_lend() const noexcept {
  std::size_t ahead = 0, held = 0;
  for (const Slot& slot : slots_)
    if (slot.use.lent) ++(slot.use.held ? held : ahead);
  return ahead < (held == 0 ? count_ : std::max<std::size_t>(1, count_ - 1));
}

std::shared_ptr<SlotLoan> Slots::lend(std::int64_t batch_id) {
  const Lock lock(mutex_);
  if (!may_lend()) return nullptr;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].is_free()) continue;
    Use& use = slots_[i].use;
    auto loan = std::make_shared<SlotLoan>(shared_from_this(), i, slots_[i].memory.bytes());
    loan->ready_ = std::move(use.last.fences);
    use = {};
    use.lent = true;
    use.batch_id = batch_id;
    return loan;
  }
  return nullptr;
}

bool Slots::any_free() {
  const Lock lock(mutex_);
  bool found = false;
  for (Slot& slot : slots_) {
    if (slot.use.unfenced) fence(slot.use);
    found = found || slot.is_free();
  }
  return found && may_lend();
}

bool Slots::any_unfenced() const {
  const Lock lock(mutex_);
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.use.unfenced; });
}

// Orders the slot's next writer after the work that consumers queued. Must be postponed while a graph is being
// captured.
void Slots::fence(Use& use) noexcept {
  use.unfenced = false;
  if (!device_) return;
  try {
    if (use.host_fence) {
      use.unfenced = !use.host_fence->ready();
      if (!use.unfenced) use.host_fence.reset();
    } else if (use.last.on_some_stream) {
      Event queued = device_->fence_all(/*spare_captures=*/use.last.in_capture);
      use.unfenced = !queued.for_streams();
      if (use.unfenced)
        use.host_fence.emplace(std::move(queued));
      else
        use.last.fences = {std::move(queued)};
    } else if (use.last.on_legacy_stream) {
      auto queued = device_->try_fence(0);
      use.unfenced = !queued;
      if (queued) use.last.fences.push_back(std::move(*queued));
    }
  } catch (...) {  // the device is lost: the next write will say so
    log_current_error(LogLevel::warn);
  }
}

void Slots::hold(std::size_t slot) noexcept {
  const Lock lock(mutex_);
  slots_[slot].use.held = true;
  ++handed_out_;
}

std::size_t Slots::not_held() const noexcept {
  return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.memory.is_there() && !(slot.use.lent && slot.use.held);
  }));
}

std::vector<std::int64_t> Slots::held_batches() const {
  const Lock lock(mutex_);
  if (bytes_ == 0 || not_held() > 0) return {};
  std::vector<std::int64_t> ids;
  for (const Slot& slot : slots_)
    if (slot.use.lent) ids.push_back(slot.use.batch_id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// A batch that the consumer never had may not have waited for the users before it: they stay.
void Slots::give(SlotLoan& loan) noexcept {
  std::shared_ptr<const std::function<void()>> freed;
  Memory dropped;
  {
    const Lock lock(mutex_);
    Slot& slot = slots_[loan.slot_];
    LastUse last{loan.take_fences(), loan.on_legacy_, loan.on_some_, loan.in_capture_};
    if (!slot.use.held && last.fences.empty()) last.fences = std::move(loan.ready_);
    slot.use = {};
    slot.use.last = std::move(last);
    slot.use.free_since = handed_out_;
    fence(slot.use);
    if (retired_)
      dropped = take_memory(slot);
    else
      freed = freed_;
  }
  if (freed) (*freed)();
}

void Slots::retire() noexcept {
  const Lock lock(mutex_);
  retired_ = true;
  freed_ = nullptr;
  for (Slot& slot : slots_)
    if (!slot.use.lent) take_memory(slot);
}

}  // namespace damacy
