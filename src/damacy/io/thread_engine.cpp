// Threads that take requests from one queue, in order, and run each from beginning to end. Knows no files and no
// policy.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>

#include "damacy/core/text.h"
#include "damacy/device/trace.h"
#include "damacy/io/detail/own_thread.h"
#include "damacy/io/engine.h"

namespace damacy {
namespace {

void run(Request& request, std::size_t thread, std::stop_token stop) noexcept {
  Part part;
  std::optional<Error> failure;
  try {
    part = request.prepare(thread, stop);
    if (!part.dst.empty()) {
      const TraceRange stage("damacy read");
      part.object->read_exact(part.offset, part.dst);
    }
  } catch (...) {
    failure.emplace(current_error());
  }
  request.complete(thread, part, failure ? &*failure : nullptr);
}

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(std::size_t threads, std::size_t readers)
      : count_(std::max<std::size_t>(threads, 1)), readers_(std::max<std::size_t>(readers, 1)) {
    const detail::BlockedSignals blocked;
    threads_.reserve(count_);
    try {
      for (std::size_t i = 0; i < count_; ++i) threads_.emplace_back([this, i] { serve(i); });
    } catch (const std::system_error& error) {
      stop();
      throw Error(Status::oom,
                  text("cannot start reader thread ", threads_.size() + 1, " of ", count_, ": ", error.what()),
                  "memory")
          .with_errno(error.code().value());
    } catch (...) {
      stop();
      throw;
    }
  }

  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  ~ThreadEngine() override {
    stop();
    // complete() may submit more; nobody else runs by now.
    while (auto request = take_waiting()) request->complete(0, Part{}, &shutdown_);
  }

  void submit(std::unique_ptr<Request> request) override { add(waiting_, std::move(request)); }
  void submit_urgent(std::unique_ptr<Request> request) override { add(urgent_, std::move(request)); }
  std::size_t threads() const noexcept override { return count_; }

 private:
  void add(std::deque<std::unique_ptr<Request>>& queue, std::unique_ptr<Request> request) {
    bool wake = false;
    try {
      const std::lock_guard lock(mutex_);
      queue.push_back(std::move(request));
      wake = sleeping_ > 0 && can_take();
    } catch (const std::bad_alloc&) {  // push_back then moved nothing
      const Error failure = current_error();
      return request->complete(0, Part{}, &failure);
    }
    if (wake) changed_.notify_one();
  }

  void stop() noexcept {
    stop_.request_stop();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    threads_.clear();  // joins
  }

  // With mutex_ held, as the next two.
  bool can_take() const {
    if (!urgent_.empty()) return true;
    return !waiting_.empty() && (reading_ < readers_ || stopping_ || !waiting_.front()->only_reads());
  }

  std::unique_ptr<Request> take() {
    if (!can_take()) return nullptr;
    auto& from = urgent_.empty() ? waiting_ : urgent_;
    auto request = std::move(from.front());
    from.pop_front();
    if (request->only_reads()) ++reading_;
    return request;
  }

  std::unique_ptr<Request> take_waiting() {
    const std::lock_guard lock(mutex_);
    return take();
  }

  // Empty: the engine stops.
  std::unique_ptr<Request> next(bool has_read) {
    std::unique_lock lock(mutex_);
    if (has_read) --reading_;
    while (!stopping_) {
      if (auto request = take()) {
        if (sleeping_ > 0 && can_take()) changed_.notify_one();
        return request;
      }
      ++sleeping_;
      changed_.wait(lock);
      --sleeping_;
    }
    return nullptr;
  }

  void serve(std::size_t thread) {
    pthread_setname_np(pthread_self(), "damacy-read");
    const std::stop_token token = stop_.get_token();
    bool has_read = false;
    while (auto request = next(has_read)) {
      has_read = request->only_reads();
      run(*request, thread, token);
    }
  }

  const std::size_t count_;
  const std::size_t readers_;
  const Error shutdown_{Status::shutdown, "the engine was stopped before this read began", "closed"};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Request>> urgent_;  // submission order among themselves
  std::deque<std::unique_ptr<Request>> waiting_;
  std::size_t sleeping_ = 0;
  std::size_t reading_ = 0;  // requests under way that only read
  bool stopping_ = false;
  std::stop_source stop_;
  std::vector<std::jthread> threads_;
};

}  // namespace

std::unique_ptr<Engine> make_thread_engine(std::size_t threads, std::size_t readers) {
  return std::make_unique<ThreadEngine>(threads, readers);
}

}  // namespace damacy
