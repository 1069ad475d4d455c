// The workers of file I/O: threads that run parts of operations, round-robin over block devices, so that a slow drive
// does not starve others. Does not know what a part does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <set>

#include "damacy/core/mutex.h"
#include "damacy/fileio/operation.h"

namespace damacy {

class IoPool {
 public:
  static IoPool& process();  // a forked child has its own

  // Queues the operation for at most `operation->helpers` workers, after others of its block device. Workers start on
  // demand and end after 10 s without work. Throws Error(oom, "memory") if there is no worker and none can be started;
  // then the operation is not queued.
  void submit(std::shared_ptr<Operation> operation);
  void forget(const Operation& operation) noexcept;  // it has ended: the queue holds it no longer
  // Waits for running parts and replaces the workers; queued parts run on new ones.
  void replace_workers();
  void pause(bool paused);  // workers start no part; waiting callers still do
  bool paused() const;
  std::size_t workers() const;
  // At process exit: drops queued parts and waits at most that long for running ones.
  void shut_down(std::chrono::milliseconds patience);

 private:
  struct Queue {
    std::uint64_t block_device;
    std::deque<std::shared_ptr<Operation>> operations;
  };

  void serve(std::size_t index, std::uint64_t generation);
  // Null: nothing for this worker.
  std::shared_ptr<Operation> pick(std::size_t index) DAMACY_REQUIRES(mutex_);
  void start_workers(std::size_t wanted, bool must_start) DAMACY_REQUIRES(mutex_);
  bool may_go_on(std::uint64_t generation) const noexcept {
    return stopping_.load(std::memory_order_relaxed) == generation;
  }

  mutable Mutex mutex_;
  Condition changed_;                                        // work, or another generation
  Condition left_;                                           // a worker is gone
  std::list<Queue> queues_ DAMACY_GUARDED_BY(mutex_);        // the next to be served first
  std::set<std::size_t> indices_ DAMACY_GUARDED_BY(mutex_);  // of workers alive
  std::size_t old_alive_ DAMACY_GUARDED_BY(mutex_) = 0;      // workers of generations before
  std::uint64_t generation_ DAMACY_GUARDED_BY(mutex_) = 1;
  bool paused_ DAMACY_GUARDED_BY(mutex_) = false;
  bool shut_down_ DAMACY_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> stopping_{1};  // the generation that may start parts; 0 while paused
};

}  // namespace damacy
