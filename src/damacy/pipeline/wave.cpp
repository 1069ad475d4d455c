#include "damacy/pipeline/wave.h"

#include "damacy/core/checked.h"

namespace damacy {

std::uint64_t Wave::source_address(std::uint64_t offset) const noexcept {
  return reinterpret_cast<std::uint64_t>((*slot_)->source.data()) + offset;
}

std::uint64_t Wave::destination_address(std::uint64_t offset) const noexcept {
  return reinterpret_cast<std::uint64_t>((*slot_)->destination.data()) + offset;
}

bool Wave::fits(std::uint64_t staged, std::uint64_t decoded) const noexcept {
  return staged_ + round_up(staged, kAlignment) <= (*slot_)->slab.size() &&
         decoded_ + round_up(decoded, kAlignment) <= (*slot_)->destination.size();
}

std::uint64_t Wave::stage(std::uint64_t bytes) noexcept {
  const std::uint64_t at = staged_;
  staged_ += round_up(bytes, kAlignment);
  return at;
}

std::uint64_t Wave::decode(std::uint64_t bytes) noexcept {
  const std::uint64_t at = decoded_;
  decoded_ += round_up(bytes, kAlignment);
  return at;
}

StagedChunk& Wave::add(std::shared_ptr<ChunkTasks> tasks, std::uint32_t chunk) {
  tasks->open_task();
  StagedChunk& staged = chunks_.emplace_back();
  staged.tasks = std::move(tasks);
  staged.chunk = chunk;
  return staged;
}

void Wave::give_back() noexcept {
  scratch = {};
  pinned = {};
  slot_.reset();
}

void Wave::open_read() noexcept {
  const std::lock_guard lock(mutex_);
  ++reads_;
}

void Wave::close_read() noexcept {
  const std::lock_guard lock(mutex_);
  if (--reads_ == 0) changed_.notify_all();
}

bool Wave::wait_reads(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  return changed_.wait(lock, stop, [&] { return reads_ == 0; });
}

void Wave::own_frame(std::uint32_t frame, StagedChunk& chunk) {
  const std::lock_guard lock(mutex_);
  if (owners_.size() <= frame) owners_.resize(frame + 1, nullptr);
  owners_[frame] = &chunk;
}

void Wave::redo(StagedChunk& chunk) {
  const std::lock_guard lock(mutex_);
  redo_.push_back(&chunk);
}

}  // namespace damacy
