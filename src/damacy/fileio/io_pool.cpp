// Scheduling of parts, and starting and ending of workers.
#include "damacy/fileio/io_pool.h"

#include <algorithm>
#include <array>
#include <span>
#include <system_error>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/fileio/detail/count_batch.h"
#include "damacy/fileio/detail/staged_group.h"

namespace damacy {
namespace {

constexpr auto kIdle = std::chrono::seconds(10);
constexpr auto kTurn = std::chrono::milliseconds(1);  // a worker stays with one operation that long, if parts are small
constexpr std::size_t kSmallAtOnce = 16;              // operations; so many may wait for each worker that runs others
constexpr std::size_t kSmallAtLeast = 4;              // of those that wait: the driver makes one call at a time
constexpr std::uint64_t kSmallBytes = 1 << 20;        // of them: what is staged stays in a core's cache
constexpr std::size_t kMostSpare = 1024;              // places in queues, kept for later operations
constexpr auto kSlow = std::chrono::microseconds(200);  // of one: longer than a read of the page cache takes

}  // namespace

IoPool& IoPool::process() {
  return one_per_process<IoPool>();
}

void IoPool::submit(std::shared_ptr<Operation> operation) {
  const std::uint64_t device = operation->job().block_device();
  Lock lock(mutex_);
  if (shut_down_) throw Error(Status::shutdown, "the process is ending", "closed");
  if (!paused_) start_workers(operation->helpers, /*must_start=*/indices_.empty());
  auto at = std::find_if(queues_.begin(), queues_.end(), [&](const Queue& q) { return q.block_device == device; });
  if (at == queues_.end()) at = queues_.insert(queues_.end(), Queue{device, {}});
  const std::uint64_t parts = operation->job().parts(), helpers = operation->helpers;
  Operation::QueuePlace& place = operation->place;
  place.queue = &at->operations;
  if (spare_.empty()) spare_.emplace_back();
  spare_.front() = std::move(operation);
  place.at = spare_.begin();
  at->operations.splice(at->operations.end(), spare_, spare_.begin());
  place.is_queued = true;
  if (paused_) return;
  if (parts > 1) return wake_some(parts, helpers);
  if (are_soon_taken(*at, place.at)) return;  // what waited before it has its worker, or there was none
  const std::shared_ptr<Idle> next = next_to_wake();
  lock.unlock();
  if (next != nullptr) next->wake.notify_one();
}

void IoPool::take_out(Operation& operation) {
  operation.place.is_queued = false;
  const auto at = operation.place.at;
  spare_.splice(spare_.begin(), *operation.place.queue, at);
  at->reset();  // may end the operation
  if (spare_.size() > kMostSpare) spare_.pop_back();
}

void IoPool::forget(const Operation& operation) noexcept {
  if (!operation.place.is_queued) return;
  std::shared_ptr<Operation> gone;  // destroyed outside the lock
  const Lock lock(mutex_);
  if (!operation.place.is_queued) return;
  gone = *operation.place.at;
  take_out(*gone);
}

void IoPool::set_woken(Idle& worker) {
  worker.is_woken = true;
  ++on_their_way_;
  wake_ups_.fetch_add(1, std::memory_order_relaxed);
}

std::shared_ptr<IoPool::Idle> IoPool::next_to_wake() {
  if (on_their_way_ > 0 || idle_.empty()) return nullptr;
  const auto first = idle_.begin();
  if (!needs_worker(first->first)) return nullptr;
  const std::shared_ptr<Idle> worker = first->second;
  idle_.erase(first);
  set_woken(*worker);
  return worker;
}

void IoPool::wake_some(std::uint64_t most, std::uint64_t helpers) {
  for (; most > 0 && !idle_.empty() && idle_.begin()->first < helpers; --most) {
    Idle& worker = *idle_.begin()->second;  // its thread keeps it, and needs the lock to go on
    idle_.erase(idle_.begin());
    set_woken(worker);
    worker.wake.notify_one();
  }
}

void IoPool::wake_all() {
  wake_some(idle_.size(), ~std::uint64_t{0});
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

std::shared_ptr<Operation> IoPool::first_for(std::size_t index) {
  for (const Queue& queue : queues_)
    for (const auto& operation : queue.operations)
      if (operation->helpers > index && operation->has_parts()) return operation;
  return nullptr;
}

bool IoPool::are_soon_taken(const Queue& queue, Waiting::const_iterator first) const {
  if (small_is_slow_) return false;
  const auto takes = [&](const SmallWork& work, const Operation& operation) {
    return work.block_device == queue.block_device && work.index < operation.helpers;
  };
  const auto busy = static_cast<std::size_t>(std::ranges::count_if(
      small_work_, [&](const SmallWork& work) { return work.block_device == queue.block_device; }));
  if (queue.operations.size() >= kSmallAtOnce * busy) return false;
  return std::all_of(first, queue.operations.end(), [&](const auto& operation) DAMACY_REQUIRES(mutex_) {
    return operation->is_small &&
           std::ranges::any_of(small_work_, [&](const SmallWork& work) { return takes(work, *operation); });
  });
}

bool IoPool::needs_worker(std::size_t index) const {
  return std::ranges::any_of(queues_, [&](const Queue& queue) DAMACY_REQUIRES(mutex_) {
    const auto is_for = [&](const auto& operation) { return operation->helpers > index && operation->has_parts(); };
    return std::ranges::any_of(queue.operations, is_for) && !are_soon_taken(queue, queue.operations.begin());
  });
}

std::size_t IoPool::small_share(const Waiting& waiting) const {
  const std::size_t share = waiting.size() / (small_work_.size() + 1);
  return std::clamp<std::size_t>(share, small_is_slow_ ? 1 : kSmallAtLeast, kSmallAtOnce);
}

IoPool::SmallParts IoPool::claim_from(Waiting& waiting, Waiting::iterator first, std::size_t index, std::size_t most) {
  SmallParts parts;
  parts.reserve(most);  // no part is claimed that could not be kept
  std::uint64_t bytes = 0;
  for (auto at = first; at != waiting.end() && parts.size() < most;) {
    const std::shared_ptr<Operation> operation = *at++;
    if (!operation->is_small || operation->helpers <= index) break;
    bytes += operation->job().range_bytes(0);
    if (bytes > kSmallBytes && !parts.empty()) break;
    take_out(*operation);  // first: a claim may end the operation, which then is forgotten
    if (const auto part = operation->claim()) parts.emplace_back(operation, *part);
  }
  return parts;
}

void IoPool::claim_small(Queue& queue, std::size_t index, Work& work) {
  work.small = claim_from(queue.operations, queue.operations.begin(), index, small_share(queue.operations));
  if (!work.small.empty())
    work.small_work = small_work_.insert(small_work_.end(), SmallWork{queue.block_device, index});
}

bool IoPool::help(Operation& operation) {
  SmallParts parts;
  if (!operation.is_parents()) {
    const Lock lock(mutex_);
    if (operation.place.is_queued) {
      Waiting& waiting = *operation.place.queue;
      // Reads that wait for storage gain nothing by a batch, and the caller would wait for each of them.
      const bool is_alone = paused_ || small_is_slow_;
      const std::size_t most = is_alone ? 1 : small_share(waiting);
      parts = claim_from(waiting, operation.place.at, /*index=*/0, most);
    }
  }
  if (parts.empty()) return operation.run_one();
  const bool is_slow = run_small(parts);
  parts.clear();  // operations may end with it
  const Lock lock(mutex_);
  small_is_slow_ = is_slow;
  return true;
}

IoPool::Work IoPool::pick(std::size_t index) {
  Work work;
  for (std::size_t turns = queues_.size(); turns > 0; --turns) {
    Queue& queue = queues_.front();
    while (!queue.operations.empty() && !queue.operations.front()->has_parts()) take_out(*queue.operations.front());
    if (queue.operations.empty()) {
      queues_.pop_front();
      continue;
    }
    queues_.splice(queues_.end(), queues_, queues_.begin());
    claim_small(queue, index, work);
    if (!work.is_empty()) return work;
    for (const auto& operation : queue.operations)
      if (operation->helpers > index && operation->has_parts()) {
        work.operation = operation;
        return work;
      }
  }
  return work;
}

bool IoPool::wait_for_work(Lock& lock, std::size_t index, const std::shared_ptr<Idle>& self) {
  self->is_woken = false;
  idle_[index] = self;
  const bool in_time = self->wake.wait_for(lock, kIdle, [&]() DAMACY_REQUIRES(mutex_) { return self->is_woken; });
  if (in_time)
    --on_their_way_;
  else
    idle_.erase(index);
  return in_time;
}

void IoPool::serve(std::size_t index, std::uint64_t generation) {
  const auto self = std::make_shared<Idle>();
  Lock lock(mutex_);
  while (generation_ == generation && !shut_down_) {
    Work work = paused_ ? Work{} : pick(index);
    const std::shared_ptr<Idle> next = paused_ ? nullptr : next_to_wake();
    if (work.is_empty()) {
      if (next != nullptr) next->wake.notify_one();
      if (!wait_for_work(lock, index, self) && (paused_ || first_for(index) == nullptr)) break;
      continue;
    }
    lock.unlock();
    if (next != nullptr) next->wake.notify_one();
    bool is_slow = false;
    if (work.operation != nullptr)
      run(*work.operation, generation);
    else
      is_slow = run_small(work.small);
    const bool was_small = work.operation == nullptr;
    const auto of = work.small_work;
    work = {};  // operations may end with it
    lock.lock();
    if (!was_small) continue;
    small_work_.erase(of);
    small_is_slow_ = is_slow;
  }
  if (generation_ == generation)
    indices_.erase(index);
  else
    --old_alive_;
  left_.notify_all();
}

void IoPool::run(Operation& operation, std::uint64_t generation) const {
  const auto until = std::chrono::steady_clock::now() + kTurn;
  while (may_go_on(generation) && operation.run_one() && std::chrono::steady_clock::now() < until) {
  }
}

bool IoPool::run_small(const SmallParts& parts) {
  const auto began = std::chrono::steady_clock::now();
  std::array<IoJob::Stretch, kSmallAtOnce> stretches;
  const std::span expected(stretches.data(), parts.size());
  std::ranges::transform(parts, stretches.begin(), [](const auto& part) { return part.first->job().stretch(); });
  {
    const detail::CountBatch counts;
    const detail::StagedGroup group(expected);  // of their copies
    for (const auto& [operation, part] : parts) operation->run(part);
  }
  for (const auto& [operation, part] : parts) operation->leave(part);
  return std::chrono::steady_clock::now() - began > kSlow * parts.size();
}

void IoPool::replace_workers() {
  Lock lock(mutex_);
  old_alive_ += indices_.size();
  indices_.clear();
  ++generation_;
  stopping_ = paused_ ? 0 : generation_;
  wake_all();
  left_.wait(lock, [this]() DAMACY_REQUIRES(mutex_) { return old_alive_ == 0; });
  small_is_slow_ = false;
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
  wake_all();
}

bool IoPool::paused() const {
  const Lock lock(mutex_);
  return paused_;
}

std::size_t IoPool::workers() const {
  const Lock lock(mutex_);
  return indices_.size() + old_alive_;
}

std::size_t IoPool::idle_workers() const {
  const Lock lock(mutex_);
  return idle_.size();
}

void IoPool::shut_down(std::chrono::milliseconds patience) {
  std::list<Queue> dropped;
  Lock lock(mutex_);
  shut_down_ = true;
  stopping_ = 0;
  dropped.swap(queues_);
  for (const Queue& queue : dropped)
    for (const auto& operation : queue.operations)
      operation->place.is_queued = false;  // so that none is taken out below
  wake_all();
  lock.unlock();
  for (const Queue& queue : dropped)
    for (const auto& operation : queue.operations) operation->drop_rest(/*as_cancelled=*/true);
  lock.lock();
  left_.wait_for(lock, patience, [this]() DAMACY_REQUIRES(mutex_) { return indices_.empty() && old_alive_ == 0; });
}

}  // namespace damacy
