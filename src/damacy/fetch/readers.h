// The threads that read, with their state, and the threads that make storage calls for others. Used by both engines.
// Knows requests; not batches.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/core/latch.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/thread_counts.h"
#include "damacy/store/engine.h"

namespace damacy {

// Blocking storage calls that other threads wait for, made concurrently. Each is either answered or timed out.
class BlockingCalls {
 public:
  virtual ~BlockingCalls() = default;
  // Makes a call and keeps the answer. Throws nothing but Abandoned.
  virtual void call(std::size_t number) = 0;
  // Storage does not answer that call in time.
  virtual void time_out(std::size_t number, const Error& why) noexcept = 0;
};

// Calls that one thread waits for.
class AwaitedCalls : public BlockingCalls {
 public:
  // Each call was answered or timed out.
  void finish() noexcept {
    done_.open();
    ended();
  }
  [[nodiscard]] bool wait(const std::stop_token& stop) { return done_.wait(stop); }  // false: stopped before
  bool wait_for(std::chrono::milliseconds most) { return done_.wait_for(most); }     // false: not yet

 private:
  virtual void ended() noexcept {}  // the last function that finish() calls
  Latch done_;
};

class Readers {
 public:
  Readers(const ThreadCounts& threads, const std::shared_ptr<const Clock>& clock);

  void submit(std::unique_ptr<Request> request) { engine_->submit(std::move(request)); }
  void submit_urgent(std::unique_ptr<Request> request) { engine_->submit_urgent(std::move(request)); }
  // Makes the calls for i in [0, count), at most `at_once` at a time, then calls `on_done` once, on whichever thread
  // finished last, or on this one.
  void run_blocking(std::shared_ptr<BlockingCalls> calls, std::size_t count, std::size_t at_once,
                    std::function<void()> on_done);
  // The same, and waits. False: stopped before; the calls may still go on. `while_waiting` is called every 5 ms; null:
  // nothing is.
  [[nodiscard]] bool run_and_wait(const std::shared_ptr<AwaitedCalls>& calls, std::size_t count, std::size_t at_once,
                                  const std::stop_token& stop, const std::function<void()>& while_waiting = {});
  // Makes one call, which no thread waits for, on a thread that only does this. It starts with the first such call.
  void run_in_background(std::shared_ptr<BlockingCalls> call);
  // Fails storage calls that exceeded their deadline. Any thread, without a lock.
  void abandon_overdue() noexcept;
  // Ends running requests, drops waiting ones (their tasks fail), joins. Idempotent. True if threads stuck in storage
  // were detached with `keep`. Blocking calls may still be made between the two functions.
  bool stop_reading(const std::shared_ptr<void>& keep) noexcept;
  bool stop(const std::shared_ptr<void>& keep) noexcept;

  // Chunks that are read at a time, where nothing else is done with them: for a device.
  std::size_t at_once() const noexcept { return at_once_; }
  std::vector<DecodeContext>& contexts() noexcept { return contexts_; }

 private:
  Engine* background() const noexcept;  // null: it has not started

  std::vector<DecodeContext> contexts_;               // by thread
  std::chrono::steady_clock::time_point patience_{};  // of a stop
  std::atomic<bool> stuck_{false};                    // some thread is
  const std::size_t at_once_;
  const std::shared_ptr<const Clock> clock_;
  mutable Mutex mutex_;
  std::unique_ptr<Engine> background_ DAMACY_GUARDED_BY(mutex_);
  std::unique_ptr<Engine> blocking_;  // for threads that must not get stuck: the caller's, the planner's
  std::unique_ptr<Engine> engine_;    // last: its threads use the contexts
};

}  // namespace damacy
