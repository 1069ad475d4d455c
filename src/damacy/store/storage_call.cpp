#include "damacy/store/storage_call.h"

#include <atomic>
#include <exception>
#include <string_view>
#include <system_error>

#include "damacy/core/formatted.h"
#include "damacy/core/latch.h"
#include "damacy/core/limits.h"
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
  bool has_ended() { return ended_.is_open(); }
  bool wait() { return ended_.wait_for(kLook); }
  bool time_out_overdue() noexcept { return watch_.abandon(kDeadline, left_alone > 0, {}); }
  bool interrupt() noexcept { return watch_.abandon(Clock::Time{0}, true, ": the call was interrupted"); }
  // After the end.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Once: by the thread, or by who abandons it.
  void end(std::exception_ptr failure) noexcept {
    failure_ = std::move(failure);
    ended_.open();
  }

  const std::function<void()> work_;
  StorageWatch watch_;
  std::exception_ptr failure_;  // written before ended_ opens
  Latch ended_;
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
