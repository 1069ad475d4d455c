// The thread that calls the callbacks of ended operations, after their copies. Does no I/O. Starts on first use and
// ends when idle.
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "damacy/core/mutex.h"

namespace damacy {

class Operation;

class CallbackThread {
 public:
  static CallbackThread& process();
  // Calls settle(*ended) on the thread.
  using Settle = void (*)(Operation& ended);
  void add(std::shared_ptr<Operation> ended, Settle settle) noexcept;

 private:
  void serve();

  Mutex mutex_;
  Condition changed_;
  std::deque<std::pair<std::shared_ptr<Operation>, Settle>> ended_ DAMACY_GUARDED_BY(mutex_);
  bool is_running_ DAMACY_GUARDED_BY(mutex_) = false;
};

}  // namespace damacy
