// One queue, one thread.
#include "damacy/fileio/detail/callback_thread.h"

#include <chrono>
#include <utility>

#include "damacy/core/fork.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"

namespace damacy {

CallbackThread& CallbackThread::process() {
  return one_per_process<CallbackThread>();
}

void CallbackThread::add(std::shared_ptr<Operation> ended, Settle settle) noexcept {
  const Lock lock(mutex_);
  ended_.emplace_back(std::move(ended), settle);
  if (is_running_) return changed_.notify_one();
  try {
    Thread("damacy-callback", [this] { serve(); }).leave_alone();
    is_running_ = true;
  } catch (const std::exception&) {  // the next one tries again; who waits in get() needs no thread
    log(LogLevel::warn, "cannot start the thread for callbacks of file I/O");
  }
}

void CallbackThread::serve() {
  constexpr auto kIdle = std::chrono::seconds(10);
  Lock lock(mutex_);
  while (changed_.wait_for(lock, kIdle, [this]() DAMACY_REQUIRES(mutex_) { return !ended_.empty(); })) {
    auto [operation, settle] = std::move(ended_.front());
    ended_.pop_front();
    lock.unlock();
    settle(*operation);
    operation.reset();
    lock.lock();
  }
  is_running_ = false;
}

}  // namespace damacy
