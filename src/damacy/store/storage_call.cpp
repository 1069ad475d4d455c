#include "damacy/store/storage_call.h"

#include <atomic>
#include <exception>
#include <string_view>
#include <system_error>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/store/storage_watch.h"

namespace damacy {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr auto kDeadline = std::chrono::seconds(Limits::storage_operation_s);

std::atomic<int> left_alone = 0;  // threads that storage holds still; others may wait for what they have

class StorageCall final : public Abandonable {
 public:
  StorageCall(std::function<void()> work, std::shared_ptr<const Clock> clock)
      : work_(std::move(work)), watch_(std::move(clock)) {}

  // The call's own thread.
  void run() noexcept {
    watch_.attach_thread();
    std::exception_ptr failure;
    try {
      const StorageWatch::Scope scope(this);
      work_();
    } catch (const Abandoned&) {
      --left_alone;
      return;
    } catch (...) {
      failure = std::current_exception();
    }
    end(std::move(failure));
  }
  void abandon(const Error& why) noexcept override {
    ++left_alone;
    end(std::make_exception_ptr(why));
  }

  // The caller's. False: not yet.
  bool has_ended() {
    const Lock lock(mutex_);
    return is_ended_;
  }
  bool wait() {
    Lock lock(mutex_);
    return ended_.wait_for(lock, kLook, [this]() DAMACY_REQUIRES(mutex_) { return is_ended_; });
  }
  bool time_out_overdue() noexcept { return watch_.abandon(kDeadline, left_alone > 0, {}); }
  bool interrupt() noexcept { return watch_.abandon(Clock::Time{0}, true, ": the call was interrupted"); }
  void rethrow() {
    const Lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void end(std::exception_ptr failure) noexcept {
    {
      const Lock lock(mutex_);
      failure_ = std::move(failure);
      is_ended_ = true;
    }
    ended_.notify_all();
  }

  const std::function<void()> work_;
  StorageWatch watch_;
  Mutex mutex_;
  Condition ended_;
  bool is_ended_ DAMACY_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ DAMACY_GUARDED_BY(mutex_);
};

Thread start(const std::shared_ptr<StorageCall>& call) {
  try {
    return Thread("damacy-ask", [call] { call->run(); });
  } catch (const std::system_error& error) {
    throw Error(Status::oom, formatted("cannot start a thread for storage calls: {}", std::string_view(error.what())),
                "memory")
        .with_errno(error.code().value());
  }
}

// Detached if it is stuck in a storage call, joined otherwise.
class CallThread {
 public:
  explicit CallThread(const std::shared_ptr<StorageCall>& call) : call_(*call), thread_(start(call)) {}
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;
  // A call that is interrupted is abandoned at once if its thread is in an operation; else when it begins one.
  ~CallThread() {
    while (!abandoned_ && !call_.has_ended()) {
      abandoned_ = call_.interrupt();
      if (!abandoned_) call_.wait();
    }
    if (abandoned_) thread_.leave_alone();
  }

  void wait(const std::function<void()>& while_waiting) {
    while (!abandoned_ && !call_.wait()) {
      abandoned_ = call_.time_out_overdue();
      if (!abandoned_ && while_waiting) while_waiting();
    }
  }

 private:
  StorageCall& call_;
  Thread thread_;
  bool abandoned_ = false;
};

}  // namespace

void call_storage(std::function<void()> work, const StorageWaiting& waiting) {
  const auto call = std::make_shared<StorageCall>(std::move(work), waiting.clock);
  CallThread(call).wait(waiting.while_waiting);
  call->rethrow();
}

}  // namespace damacy
