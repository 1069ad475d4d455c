#include "damacy/pipeline/slots.h"

#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/core/log.h"

namespace damacy {

SlotLoan::~SlotLoan() {
  if (epoch_ == fork_epoch())
    slots_->give(slot_, {std::move(fences_), on_legacy_, on_some_, in_capture_});
  else
    new std::shared_ptr<Slots>(std::move(slots_));  // a tensor dies in a forked child: its lock may be held for ever
}

void SlotLoan::used_until(Event event) {
  const std::lock_guard lock(mutex_);
  fences_.push_back(std::move(event));
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

void Slots::allocate(const std::shared_ptr<Alloc>& alloc, std::size_t bytes) {
  std::vector<HostBuffer> made;
  for (std::size_t i = 0; i < in_use_by_.size(); ++i) made.emplace_back(alloc, bytes);
  const std::lock_guard lock(mutex_);
  buffers_ = std::move(made);
  bytes_ = bytes;
}

bool Slots::allocated() const {
  return bytes_of_one() > 0;
}

std::size_t Slots::bytes_of_one() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::shared_ptr<SlotLoan> Slots::lend(std::int64_t batch_id) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < in_use_by_.size(); ++i) {
    Use& use = in_use_by_[i];
    if (use.lent || use.unfenced) continue;
    auto loan = std::make_shared<SlotLoan>(shared_from_this(), i, buffers_[i].bytes());
    loan->ready_ = std::move(use.last.fences);
    use = {};
    use.lent = true;
    use.batch_id = batch_id;
    return loan;
  }
  return nullptr;
}

bool Slots::any_free() {
  const std::lock_guard lock(mutex_);
  bool found = false;
  for (std::size_t i = 0; i < in_use_by_.size(); ++i) {
    if (in_use_by_[i].unfenced) fence(i);
    found = found || !(in_use_by_[i].lent || in_use_by_[i].unfenced);
  }
  return found;
}

bool Slots::any_unfenced() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(in_use_by_.begin(), in_use_by_.end(), [](const Use& use) { return use.unfenced; });
}

// Orders the slot's next writer behind what consumers queued. While a graph is being captured that has to wait.
void Slots::fence(std::size_t slot) noexcept {
  Use& use = in_use_by_[slot];
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

void Slots::hold(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  in_use_by_[slot].held = true;
}

std::vector<std::int64_t> Slots::held_batches() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> ids;
  for (const Use& use : in_use_by_) {
    if (!use.lent || !use.held) return {};
    ids.push_back(use.batch_id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

void Slots::give(std::size_t slot, LastUse last) noexcept {
  std::shared_ptr<const std::function<void()>> freed;
  HostBuffer dropped;
  {
    const std::lock_guard lock(mutex_);
    in_use_by_[slot] = {};
    in_use_by_[slot].last = std::move(last);
    fence(slot);
    if (retired_)
      dropped = std::move(buffers_[slot]);
    else
      freed = freed_;
  }
  if (freed) (*freed)();
}

void Slots::retire() noexcept {
  const std::lock_guard lock(mutex_);
  retired_ = true;
  freed_ = nullptr;
  for (std::size_t i = 0; i < in_use_by_.size(); ++i)
    if (!in_use_by_[i].lent) buffers_[i] = {};
}

}  // namespace damacy
