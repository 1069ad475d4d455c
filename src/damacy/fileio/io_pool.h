// The workers of file I/O: threads that run parts of operations, round-robin over block devices, so that a slow drive
// does not starve others. Does not know what a part does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

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
  // Runs the part of a small operation on the calling thread, as one batch with small ones that wait behind it; alone
  // while the pool is paused. False: it was not left to start.
  bool help(Operation& operation);
  // Waits for running parts and replaces the workers; queued parts run on new ones.
  void replace_workers();
  void pause(bool paused);  // workers start no part; waiting callers still do
  bool paused() const;
  std::size_t workers() const;
  std::size_t idle_workers() const;  // that nothing has woken
  std::uint64_t wake_ups() const noexcept { return wake_ups_.load(std::memory_order_relaxed); }  // of idle workers
  // At process exit: drops queued parts and waits at most that long for running ones.
  void shut_down(std::chrono::milliseconds patience);

 private:
  using Waiting = std::list<std::shared_ptr<Operation>>;
  struct Queue {
    std::uint64_t block_device;
    Waiting operations;  // with parts to claim, as far as is known
  };
  // A worker that runs small operations of one block device, and then looks for more of them.
  struct SmallWork {
    std::uint64_t block_device;
    std::size_t index;
  };
  struct Idle {  // a worker that waits; whoever wakes it keeps this meanwhile, as it may end
    Condition wake;
    bool is_woken = false;
  };
  // What a worker runs next: an operation, of which it claims parts, or parts that are claimed for it.
  using SmallParts = std::vector<std::pair<std::shared_ptr<Operation>, std::uint64_t>>;
  struct Work {
    std::shared_ptr<Operation> operation;
    SmallParts small;
    std::list<SmallWork>::iterator small_work{};  // if there is any
    bool is_empty() const noexcept { return operation == nullptr && small.empty(); }
  };

  void serve(std::size_t index, std::uint64_t generation);
  void run(Operation& operation, std::uint64_t generation) const;
  static bool run_small(const SmallParts& parts);  // whether they were slow
  // False: there was none for long.
  bool wait_for_work(Lock& lock, std::size_t index, const std::shared_ptr<Idle>& self) DAMACY_REQUIRES(mutex_);
  Work pick(std::size_t index) DAMACY_REQUIRES(mutex_);
  void claim_small(Queue& queue, std::size_t index, Work& work) DAMACY_REQUIRES(mutex_);
  // At most `most` parts of small operations that follow each other in a queue, which worker `index` may run.
  SmallParts claim_from(Waiting& waiting, Waiting::iterator first, std::size_t index, std::size_t most)
      DAMACY_REQUIRES(mutex_);
  // How many small operations a thread takes: its share of what waits, with the workers that run others now. Idle
  // workers have no share: the fewer calls the driver gets at a time, the sooner each ends.
  std::size_t small_share(const Waiting& waiting) const DAMACY_REQUIRES(mutex_);
  std::shared_ptr<Operation> first_for(std::size_t index) DAMACY_REQUIRES(mutex_);  // null: nothing for this worker
  // Whether few operations wait there, and those from `first` on can be left to workers that run small ones now.
  bool are_soon_taken(const Queue& queue, Waiting::const_iterator first) const DAMACY_REQUIRES(mutex_);
  bool needs_worker(std::size_t index) const DAMACY_REQUIRES(mutex_);
  void take_out(Operation& operation) DAMACY_REQUIRES(mutex_);
  // An idle worker if there is work for it, unless another one is on its way: that one wakes the next. Small operations
  // wait until a batch of copies has come together, as long as they end fast and a worker will look for them. The
  // caller notifies it after it has unlocked the mutex, which the worker takes. Null: none.
  std::shared_ptr<Idle> next_to_wake() DAMACY_REQUIRES(mutex_);
  void wake_some(std::uint64_t most, std::uint64_t helpers) DAMACY_REQUIRES(mutex_);
  void set_woken(Idle& worker) DAMACY_REQUIRES(mutex_);
  void wake_all() DAMACY_REQUIRES(mutex_);
  void start_workers(std::size_t wanted, bool must_start) DAMACY_REQUIRES(mutex_);
  bool may_go_on(std::uint64_t generation) const noexcept {
    return stopping_.load(std::memory_order_relaxed) == generation;
  }

  mutable Mutex mutex_;
  std::map<std::size_t, std::shared_ptr<Idle>> idle_ DAMACY_GUARDED_BY(mutex_);  // not woken yet
  std::size_t on_their_way_ DAMACY_GUARDED_BY(mutex_) = 0;                       // woken workers that do not run yet
  std::atomic<std::uint64_t> wake_ups_{0};
  Condition left_;                                     // a worker is gone
  std::list<Queue> queues_ DAMACY_GUARDED_BY(mutex_);  // the next to be served first
  Waiting spare_ DAMACY_GUARDED_BY(mutex_);            // places of operations that were taken out
  std::list<SmallWork> small_work_ DAMACY_GUARDED_BY(mutex_);
  bool small_is_slow_ DAMACY_GUARDED_BY(mutex_) = false;     // the last small operations waited for storage
  std::set<std::size_t> indices_ DAMACY_GUARDED_BY(mutex_);  // of workers alive
  std::size_t old_alive_ DAMACY_GUARDED_BY(mutex_) = 0;      // workers of generations before
  std::uint64_t generation_ DAMACY_GUARDED_BY(mutex_) = 1;
  bool paused_ DAMACY_GUARDED_BY(mutex_) = false;
  bool shut_down_ DAMACY_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> stopping_{1};  // the generation that may start parts; 0 while paused
};

}  // namespace damacy
