// One running request: parts that threads claim in order, their outcome, and the waiters. Knows nothing of files: its
// IoJob runs the parts. A future is a shared_ptr to one of these.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/device/device.h"

namespace damacy {

class Operation;

// The parts of an operation, with the owner of its bytes. Several threads call run() at once for different parts; a
// part runs at most once.
class IoJob {
 public:
  virtual ~IoJob() = default;
  virtual std::uint64_t parts() const noexcept = 0;
  virtual std::uint64_t ranges() const noexcept { return 1; }
  virtual std::uint64_t range_bytes(std::uint64_t range) const noexcept = 0;
  virtual std::uint64_t block_device() const noexcept = 0;  // which queue it waits in
  // Reports to `operation`: short_at(), failed(), copies_until().
  virtual void run(std::uint64_t part, Operation& operation) = 0;
  // Called once after the last part, whatever its outcome: files may close.
  virtual void ended() noexcept {}
  // An error for the result although no part failed; empty if there is none.
  virtual std::exception_ptr verdict(const Operation&) const { return nullptr; }
};

class Operation : public std::enable_shared_from_this<Operation> {
 public:
  enum class State { running, done, cancelled };

  explicit Operation(std::unique_ptr<IoJob> job);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // -- running it --
  // Runs one part, unless none is left to start (false). Any thread; the caller holds a reference.
  bool run_one();
  bool has_parts() const noexcept { return next_.load(std::memory_order_relaxed) < parts_; }
  // No part starts from now on; true if that dropped any.
  bool drop_rest(bool as_cancelled);

  // -- what parts report --
  // Only the first `bytes` of that range are there. The least of all reports counts.
  void short_at(std::uint64_t range, std::uint64_t bytes) noexcept;
  std::uint64_t limit(std::uint64_t range) const noexcept { return got_[range].load(std::memory_order_relaxed); }
  // The failure at the lowest `position` is the operation's. No further part starts.
  void failed(std::uint64_t position, std::exception_ptr error) noexcept;
  // Copies between host and device that were enqueued and end with that event.
  void copies_until(Event event);

  // -- who waits --
  bool done();  // all parts and copies have ended
  bool parts_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // Waits for parts and copies; false if not done within `timeout`. Without a timeout the caller first runs waiting
  // parts. `interrupted` is called every 50 ms on the calling thread and may throw.
  bool wait(std::optional<std::chrono::nanoseconds> timeout, const std::function<void()>& interrupted = {});
  bool wait_parts(std::optional<std::chrono::nanoseconds> timeout, const std::function<void()>& interrupted = {});
  // Runs every part that is left and waits for those of others. What `interrupted` throws leaves after the running
  // ones.
  void run_all(const std::function<void()>& interrupted);

  // After wait(): the error, or null. A cancelled operation has none.
  std::exception_ptr error() const;
  bool cancelled() const noexcept { return state_ == State::cancelled; }
  std::uint64_t count() const noexcept;  // bytes of all ranges
  std::vector<std::uint64_t> counts() const;
  std::vector<Event> copies() const;

  // Called once when everything has ended, on the library's callback thread, or immediately if it has already ended.
  void when_done(std::function<void()> call);

  bool is_parents() const noexcept;  // of the process this one was forked from: nothing of it may be touched
  IoJob& job() const noexcept { return *job_; }
  std::uint64_t helpers = 1;                   // so many workers may join
  std::function<void(Operation&)> when_ended;  // set before it starts; called once, at the end of the last part

 private:
  void leave() noexcept;
  void finish() noexcept;            // the last part has ended
  void notify_callbacks() noexcept;  // on the callback thread
  void settle();                     // waits for the copies; then runs the callbacks of when_done()
  bool await_copies(std::optional<std::chrono::steady_clock::time_point> until,
                    const std::function<void()>& interrupted);

  const std::unique_ptr<IoJob> job_;
  const std::uint64_t parts_;
  const std::uint64_t epoch_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> got_;
  const std::uint64_t ranges_;

  std::atomic<std::uint64_t> next_{0};
  // Threads inside run_one(), and one more until nothing is left to start: who brings it to zero ends the operation.
  std::atomic<std::uint64_t> inside_{1};
  std::atomic<bool> closed_{false};  // that one more has been taken away
  std::atomic<bool> ended_{false};
  std::atomic<State> state_{State::running};

  mutable Mutex mutex_;
  Condition changed_;
  bool cancel_asked_ DAMACY_GUARDED_BY(mutex_) = false;
  std::uint64_t failed_at_ DAMACY_GUARDED_BY(mutex_) = ~std::uint64_t{0};
  std::exception_ptr error_ DAMACY_GUARDED_BY(mutex_);
  std::vector<Event> copies_ DAMACY_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> calls_ DAMACY_GUARDED_BY(mutex_);
  bool settled_ DAMACY_GUARDED_BY(mutex_) = false;
};

}  // namespace damacy
