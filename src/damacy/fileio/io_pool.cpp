// Scheduling of parts, and starting and ending of workers.
#include "damacy/fileio/io_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"

namespace damacy {
namespace {

constexpr auto kIdle = std::chrono::seconds(10);
constexpr auto kTurn = std::chrono::milliseconds(1);  // a worker stays with one operation that long, if parts are small

}  // namespace

IoPool& IoPool::process() {
  return one_per_process<IoPool>();
}

void IoPool::submit(std::shared_ptr<Operation> operation) {
  const std::uint64_t device = operation->job().block_device();
  const Lock lock(mutex_);
  if (shut_down_) throw Error(Status::shutdown, "the process is ending", "closed");
  if (!paused_) start_workers(operation->helpers, /*must_start=*/indices_.empty());
  auto at = std::find_if(queues_.begin(), queues_.end(), [&](const Queue& q) { return q.block_device == device; });
  if (at == queues_.end()) at = queues_.insert(queues_.end(), Queue{device, {}});
  at->operations.push_back(std::move(operation));
  changed_.notify_all();
}

void IoPool::forget(const Operation& operation) noexcept {
  std::shared_ptr<Operation> gone;  // destroyed outside the lock
  const Lock lock(mutex_);
  for (Queue& queue : queues_) {
    if (queue.block_device != operation.job().block_device()) continue;
    auto& all = queue.operations;
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto& queued) { return queued.get() == &operation; });
    if (at == all.end()) return;
    gone = std::move(*at);
    all.erase(at);
    return;
  }
}

void IoPool::start_workers(std::size_t wanted, bool must_start) {
  for (std::size_t index = 0; indices_.size() < wanted; ++index) {
    if (!indices_.insert(index).second) continue;
    try {
      Thread("damacy-io", [this, index, generation = generation_] { serve(index, generation); }).leave_alone();
    } catch (const std::system_error& error) {
      indices_.erase(index);
      if (!must_start || !indices_.empty()) return;
      throw Error(Status::oom, formatted("cannot start a worker for file I/O: {}", error.what()), "memory")
          .with_errno(error.code().value());
    }
  }
}

std::shared_ptr<Operation> IoPool::pick(std::size_t index) {
  for (std::size_t turns = queues_.size(); turns > 0; --turns) {
    Queue& queue = queues_.front();
    while (!queue.operations.empty() && !queue.operations.front()->has_parts()) queue.operations.pop_front();
    if (queue.operations.empty()) {
      queues_.pop_front();
      continue;
    }
    queues_.splice(queues_.end(), queues_, queues_.begin());
    for (const auto& operation : queue.operations)
      if (operation->helpers > index && operation->has_parts()) return operation;
  }
  return nullptr;
}

void IoPool::serve(std::size_t index, std::uint64_t generation) {
  Lock lock(mutex_);
  while (generation_ == generation && !shut_down_) {
    auto operation = paused_ ? nullptr : pick(index);
    if (operation == nullptr) {
      if (changed_.wait_for(lock, kIdle) == std::cv_status::timeout && (paused_ || pick(index) == nullptr)) break;
      continue;
    }
    lock.unlock();
    const auto until = std::chrono::steady_clock::now() + kTurn;
    while (may_go_on(generation) && operation->run_one() && std::chrono::steady_clock::now() < until) {
    }
    operation.reset();
    lock.lock();
  }
  if (generation_ == generation)
    indices_.erase(index);
  else
    --old_alive_;
  left_.notify_all();
}

void IoPool::replace_workers() {
  Lock lock(mutex_);
  old_alive_ += indices_.size();
  indices_.clear();
  ++generation_;
  stopping_ = paused_ ? 0 : generation_;
  changed_.notify_all();
  left_.wait(lock, [this]() DAMACY_REQUIRES(mutex_) { return old_alive_ == 0; });
  if (paused_) return;
  std::size_t wanted = 0;
  for (const Queue& queue : queues_)
    for (const auto& operation : queue.operations) wanted = std::max<std::size_t>(wanted, operation->helpers);
  start_workers(wanted, /*must_start=*/false);
}

void IoPool::pause(bool paused) {
  const Lock lock(mutex_);
  if (paused_ == paused) return;
  paused_ = paused;
  stopping_ = paused ? 0 : generation_;
  if (paused) return;
  std::size_t wanted = 0;
  for (const Queue& queue : queues_)
    for (const auto& operation : queue.operations) wanted = std::max<std::size_t>(wanted, operation->helpers);
  start_workers(wanted, /*must_start=*/false);
  changed_.notify_all();
}

bool IoPool::paused() const {
  const Lock lock(mutex_);
  return paused_;
}

std::size_t IoPool::workers() const {
  const Lock lock(mutex_);
  return indices_.size() + old_alive_;
}

void IoPool::shut_down(std::chrono::milliseconds patience) {
  std::list<Queue> dropped;
  Lock lock(mutex_);
  shut_down_ = true;
  stopping_ = 0;
  dropped.swap(queues_);
  changed_.notify_all();
  lock.unlock();
  for (const Queue& queue : dropped)
    for (const auto& operation : queue.operations) operation->drop_rest(/*as_cancelled=*/true);
  lock.lock();
  left_.wait_for(lock, patience, [this]() DAMACY_REQUIRES(mutex_) { return indices_.empty() && old_alive_ == 0; });
}

}  // namespace damacy
