// Lends blocks, and frees those that are idle.
#include "damacy/fileio/staging.h"

#include <algorithm>
#include <new>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/mutex.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/io_settings.h"

namespace damacy {
namespace {

constexpr std::size_t kFirstBlock = 1 << 20;

std::size_t slots_in(std::size_t bytes) noexcept {
  return std::clamp<std::size_t>(bytes / StagingBlock::kLeastSlot, 1, StagingBlock::kSlots);
}

}  // namespace

StagingBlock::StagingBlock(std::shared_ptr<Device> device, std::size_t bytes)
    : device_(std::move(device)), memory_(device_->pinned_memory(), bytes), stream_(device_->make_stream()) {
  const std::size_t count = slots_in(bytes);
  const std::size_t each = count == 1 ? bytes : bytes / count / Alloc::kAlignment * Alloc::kAlignment;
  for (std::size_t i = 0; i < count; ++i) slots_.emplace_back(memory_.bytes().subspan(i * each, each));
  process_counters().pinned_bytes += bytes;
}

StagingBlock::~StagingBlock() {
  process_counters().pinned_bytes -= size();
}

StagingPool& StagingPool::process() {
  return one_per_process<StagingPool>();
}

std::unique_ptr<StagingBlock> StagingPool::take_idle(const Device& device, std::size_t bytes) {
  for (auto at = idle_.begin(); at != idle_.end(); ++at) {
    if ((*at)->device().get() != &device || (*at)->size() != bytes) continue;
    auto block = std::move(*at);
    idle_.erase(at);
    return block;
  }
  return nullptr;
}

void StagingPool::retire(std::list<std::unique_ptr<StagingBlock>>& into, std::size_t other_than) {
  for (auto at = idle_.begin(); at != idle_.end();) {
    const auto next = std::next(at);
    if ((*at)->size() != other_than) {
      pinned_ -= (*at)->size();
      into.splice(into.end(), idle_, at);
    }
    at = next;
  }
}

StagingPool::Lease StagingPool::take(const std::shared_ptr<Device>& device) {
  device->check_usable();
  std::list<std::unique_ptr<StagingBlock>> retired;  // freed outside the lock
  Lock lock(mutex_);
  std::size_t bytes = io_settings().bounce_buffer_size;
  // The process's first block is small, so that its first byte comes soon.
  if (!std::exchange(had_first_, true)) bytes = std::min(bytes, kFirstBlock);
  const std::uint64_t limit = io_settings().pinned_limit;
  for (;;) {
    if (auto block = take_idle(*device, bytes)) return {this, std::move(block)};
    if (pinned_ > 0) retire(retired, pinned_ + bytes > limit ? 0 : bytes);
    if (pinned_ == 0 || pinned_ + bytes <= limit) break;
    changed_.wait(lock);
  }
  pinned_ += bytes;
  lock.unlock();
  retired.clear();
  try {
    return {this, std::make_unique<StagingBlock>(device, bytes)};
  } catch (...) {
    lock.lock();
    pinned_ -= bytes;
    changed_.notify_all();
    throw;
  }
}

void StagingPool::give(std::unique_ptr<StagingBlock> block) noexcept {
  const Lock lock(mutex_);
  try {
    if (!block->spoilt()) idle_.push_front(std::move(block));
  } catch (const std::bad_alloc&) {  // it is freed
  }
  if (block) pinned_ -= block->size();
  changed_.notify_all();
}

std::uint64_t StagingPool::free_idle() {
  std::list<std::unique_ptr<StagingBlock>> freed;
  std::uint64_t bytes = 0;
  {
    const Lock lock(mutex_);
    const std::uint64_t before = pinned_;
    retire(freed, 0);
    bytes = before - pinned_;
    changed_.notify_all();
  }
  return bytes;
}

}  // namespace damacy
