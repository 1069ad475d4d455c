#include "damacy/pipeline/slots.h"

#include <algorithm>

namespace damacy {

SlotLoan::~SlotLoan() {
  slots_->give(slot_);
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
    if (in_use_by_[i].lent) continue;
    in_use_by_[i] = {true, false, batch_id};
    return std::make_shared<SlotLoan>(shared_from_this(), i, buffers_[i].bytes());
  }
  return nullptr;
}

bool Slots::any_free() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(in_use_by_.begin(), in_use_by_.end(), [](const Use& use) { return !use.lent; });
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

void Slots::give(std::size_t slot) noexcept {
  std::function<void()> freed;
  HostBuffer dropped;
  {
    const std::lock_guard lock(mutex_);
    in_use_by_[slot] = {};
    if (retired_)
      dropped = std::move(buffers_[slot]);
    else
      freed = freed_;
  }
  if (freed) freed();
}

void Slots::retire() {
  std::vector<HostBuffer> dropped;
  const std::lock_guard lock(mutex_);
  retired_ = true;
  freed_ = nullptr;
  for (std::size_t i = 0; i < in_use_by_.size(); ++i)
    if (!in_use_by_[i].lent) dropped.push_back(std::move(buffers_[i]));
}

}  // namespace damacy
