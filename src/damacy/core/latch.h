// A latch: closed until one thread opens it, then open forever; others wait for that. Knows nothing of what it
// announces.
#pragma once

#include <chrono>
#include <stop_token>

#include "damacy/core/mutex.h"

namespace damacy {

// What was written before open() is seen after a wait that found it open. A thread that found it open may destroy it.
class Latch {
 public:
  void open() noexcept {
    const Lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  [[nodiscard]] bool is_open() {
    const Lock lock(mutex_);
    return open_;
  }
  [[nodiscard]] bool wait(const std::stop_token& stop) {  // false: stopped before
    Lock lock(mutex_);
    return opened_.wait(lock, stop, [this]() DAMACY_REQUIRES(mutex_) { return open_; });
  }
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> most) {  // whether it is open
    Lock lock(mutex_);
    return opened_.wait_for(lock, {}, most, [this]() DAMACY_REQUIRES(mutex_) { return open_; });
  }

 private:
  Mutex mutex_;
  StoppableCondition opened_;
  bool open_ DAMACY_GUARDED_BY(mutex_) = false;
};

}  // namespace damacy
