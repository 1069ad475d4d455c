// The workers of file I/O: threads that join operations, one part at a time, in turn over block devices so that a slow
// drive starves no other. Knows nothing of what a part does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <set>

#include "damacy/fileio/operation.h"

namespace damacy {

class IoPool {
 public:
  static IoPool& process();  // a forked child has its own

  // Workers join it, at most `operation->helpers`, behind others of its block device. They start on demand and leave
  // after 10 s without work. Throws Error(oom, "memory") when there is no worker and none can be started; then the
  // operation is not queued.
  void submit(std::shared_ptr<Operation> operation);
  void forget(const Operation& operation) noexcept;  // it has ended: the queue holds it no longer
  // Waits for running parts and replaces the workers; queued parts run on new ones.
  void replace_workers();
  void pause(bool paused);  // workers start no part; waiting callers still do
  bool paused() const;
  std::size_t workers() const;
  // The process ends: drops what is queued, waits so long for what runs.
  void shut_down(std::chrono::milliseconds patience);

 private:
  struct Queue {
    std::uint64_t block_device;
    std::deque<std::shared_ptr<Operation>> operations;
  };

  void serve(std::size_t index, std::uint64_t generation);
  std::shared_ptr<Operation> pick(std::size_t index);       // with mutex_ held; null: nothing for this worker
  void start_workers(std::size_t wanted, bool must_start);  // with mutex_ held
  bool may_go_on(std::uint64_t generation) const noexcept {
    return stopping_.load(std::memory_order_relaxed) == generation;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // work, or another generation
  std::condition_variable left_;     // a worker is gone
  std::list<Queue> queues_;          // the next to be served first
  std::set<std::size_t> indices_;    // of workers alive
  std::size_t old_alive_ = 0;        // workers of generations before
  std::uint64_t generation_ = 1;
  bool paused_ = false;
  bool shut_down_ = false;
  std::atomic<std::uint64_t> stopping_{1};  // the generation that may start parts; 0 while paused
};

}  // namespace damacy
