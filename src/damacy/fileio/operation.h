// One running request: parts that threads claim in order, their outcome, and the waiters; and the future of a request.
// Knows nothing of files: its IoJob runs the parts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/fileio/one_or_more.h"

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
  // Of a small read: consecutive bytes of a file, to be copied to a device. Reads whose bytes follow each other there
  // may be made by one system call. `file` null: none.
  struct Stretch {
    const void* file = nullptr;
    const void* device = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  virtual Stretch stretch() const noexcept { return {}; }
  // Reports to `operation`: short_at(), failed(), copies_until().
  virtual void run(std::uint64_t part, Operation& operation) = 0;
  // The operation was cancelled: parts that run may end early, with any error.
  virtual void stop() noexcept {}
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
  // The three steps of run_one(). Each part that is claimed is run and then left, on any threads.
  std::optional<std::uint64_t> claim();
  void run(std::uint64_t part) noexcept;
  void leave(std::uint64_t part) noexcept;
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
  // parts; with a small operation also those that wait behind it. `interrupted` is called every 50 ms on the calling
  // thread and may throw.
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
  const OneOrMore<Event>& copies() const;  // after parts_ended()

  // Called once when everything has ended, on the library's callback thread, or immediately if it has already ended.
  void when_done(std::function<void()> call);

  bool is_parents() const noexcept;  // of the process this one was forked from: nothing of it may be touched
  IoJob& job() const noexcept { return *job_; }
  std::uint64_t helpers = 1;                   // so many workers may join
  bool is_small = false;                       // one part of a few bytes: a thread takes several of them at once
  std::function<void(Operation&)> when_ended;  // set before it starts; called once, at the end of the last part
  bool (*help)(Operation&) = nullptr;  // set before it starts: runs parts, not only its own. False: none was left

  // Where the pool holds it. Written under the pool's lock.
  struct QueuePlace {
    std::list<std::shared_ptr<Operation>>* queue = nullptr;
    std::list<std::shared_ptr<Operation>>::iterator at;
    std::atomic<bool> is_queued{false};
  };
  QueuePlace place;

 private:
  void leave() noexcept;
  void finish() noexcept;  // the last part has ended
  void run_waiting_parts(const std::function<void()>& interrupted);
  void notify_callbacks() noexcept;  // on the callback thread
  void settle();                     // waits for the copies; then runs the callbacks of when_done()
  bool await_copies(std::optional<std::chrono::steady_clock::time_point> until,
                    const std::function<void()>& interrupted);

  const std::unique_ptr<IoJob> job_;
  const std::uint64_t parts_;
  const std::uint64_t epoch_;
  const std::uint64_t ranges_;
  std::atomic<std::uint64_t> got_one_{0};
  std::unique_ptr<std::atomic<std::uint64_t>[]> got_many_;  // more than one range
  std::atomic<std::uint64_t>* const got_;

  std::atomic<std::uint64_t> next_{0};
  // Threads inside run_one(), and one more until nothing is left to start: who brings it to zero ends the operation.
  std::atomic<std::uint64_t> inside_{1};
  std::atomic<bool> closed_{false};  // that one more has been taken away
  std::atomic<bool> ended_{false};
  std::atomic<bool> released_{false};  // ended, and its job has let go of the files
  std::atomic<State> state_{State::running};

  struct Outcome {
    Mutex mutex;
    Condition changed;
    bool cancel_asked DAMACY_GUARDED_BY(mutex) = false;
    std::uint64_t failed_at DAMACY_GUARDED_BY(mutex) = ~std::uint64_t{0};
    std::exception_ptr error DAMACY_GUARDED_BY(mutex);
    OneOrMore<Event> copies DAMACY_GUARDED_BY(mutex);
    std::vector<std::function<void()>> calls DAMACY_GUARDED_BY(mutex);
    bool settled DAMACY_GUARDED_BY(mutex) = false;
  };
  mutable Outcome outcome_;
};

// What callers of CuFile get. Cheap to copy. The request keeps its file until its last part has ended, also if the
// future is dropped; the memory is the caller's, and stays until then. Any thread.
class IOFuture {
 public:
  // `devices`: those of the request's memory.
  IOFuture(std::shared_ptr<Operation> operation, OneOrMore<std::shared_ptr<Device>> devices)
      : operation_(std::move(operation)), devices_(std::move(devices)) {}
  explicit IOFuture(std::uint64_t count) : count_(count) {}  // has ended already

  bool done() const { return operation_ == nullptr || operation_->done(); }
  // Waits for the bytes, on the device too; runs parts meanwhile, unless there is a timeout. False: not done in time.
  bool wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) const;
  // Waits. The bytes read or written, any number of times. Throws the request's error: FileError, or Error(cuda);
  // Error(shutdown, "cancelled") if it was cancelled.
  std::uint64_t get() const;
  // Drops the parts that have not started. False if there were none, or the request had failed.
  bool cancel() const;
  bool cancelled() const { return operation_ != nullptr && operation_->parts_ended() && operation_->cancelled(); }
  std::vector<std::uint64_t> counts() const;  // of each range of a gather. Waits and throws as get()
  // Waits for the file alone, and lets work that is queued on `stream` later come after the copies. Throws as get().
  std::uint64_t wait_stream(std::uint64_t stream) const;
  // Called once when all has ended, on the library's callback thread, or at once. Must not throw.
  void when_done(std::function<void()> call) const;

 private:
  void check() const;

  std::shared_ptr<Operation> operation_;
  OneOrMore<std::shared_ptr<Device>> devices_;
  std::uint64_t count_ = 0;
};

}  // namespace damacy
