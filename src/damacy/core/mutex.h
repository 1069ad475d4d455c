// Mutexes, locks and condition variables whose use clang checks (`make thread-safety`): a member marked
// DAMACY_GUARDED_BY(m) is touched only with m held, a function marked DAMACY_REQUIRES(m) is called only with m held,
// one marked DAMACY_EXCLUDES(m) only without. Otherwise as those of the standard library, which they hold, and as fast.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <utility>

#include "damacy/core/fork.h"

#ifdef __clang__
#define DAMACY_CHECKED_BY_CLANG(attribute) __attribute__((attribute))
#else
#define DAMACY_CHECKED_BY_CLANG(attribute)
#endif
#define DAMACY_CAPABILITY DAMACY_CHECKED_BY_CLANG(capability("mutex"))
#define DAMACY_SCOPED_CAPABILITY DAMACY_CHECKED_BY_CLANG(scoped_lockable)
#define DAMACY_GUARDED_BY(mutex) DAMACY_CHECKED_BY_CLANG(guarded_by(mutex))
#define DAMACY_PT_GUARDED_BY(mutex) DAMACY_CHECKED_BY_CLANG(pt_guarded_by(mutex))
#define DAMACY_REQUIRES(...) DAMACY_CHECKED_BY_CLANG(requires_capability(__VA_ARGS__))
#define DAMACY_EXCLUDES(...) DAMACY_CHECKED_BY_CLANG(locks_excluded(__VA_ARGS__))
#define DAMACY_ACQUIRE(...) DAMACY_CHECKED_BY_CLANG(acquire_capability(__VA_ARGS__))
#define DAMACY_RELEASE(...) DAMACY_CHECKED_BY_CLANG(release_capability(__VA_ARGS__))
#define DAMACY_TRY_ACQUIRE(...) DAMACY_CHECKED_BY_CLANG(try_acquire_capability(__VA_ARGS__))
// Says in a comment why.
#define DAMACY_NO_THREAD_SAFETY_ANALYSIS DAMACY_CHECKED_BY_CLANG(no_thread_safety_analysis)

namespace damacy {

class DAMACY_CAPABILITY Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() DAMACY_ACQUIRE() { mutex_.lock(); }
  void unlock() DAMACY_RELEASE() { mutex_.unlock(); }
  bool try_lock() DAMACY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class Lock;
  std::mutex mutex_;
};

// Holds a mutex while it lives; may let go of it in between.
class DAMACY_SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex) DAMACY_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() DAMACY_RELEASE() {}
  void lock() DAMACY_ACQUIRE() { lock_.lock(); }
  void unlock() DAMACY_RELEASE() { lock_.unlock(); }
  bool owns_lock() const noexcept { return lock_.owns_lock(); }

 private:
  friend class Condition;
  friend class StoppableCondition;
  std::unique_lock<std::mutex> lock_;
};

// Releases a lock of `mutex` while it lives, for calls that may wait, or that may take locks of the user. Takes the
// lock again when the scope ends, also by an exception. A child that was forked meanwhile leaves it released, because a
// thread of the parent may hold the mutex: code that may fork checks for that within the scope, and throws.
class DAMACY_SCOPED_CAPABILITY LockRelease {
 public:
  LockRelease(Lock& lock, Mutex& mutex) DAMACY_RELEASE(mutex) : lock_(lock), epoch_(fork_epoch()) {
    static_cast<void>(mutex);  // names it for the analysis
    lock_.unlock();
  }
  LockRelease(const LockRelease&) = delete;
  LockRelease& operator=(const LockRelease&) = delete;
  ~LockRelease() DAMACY_RELEASE() {
    if (fork_epoch() == epoch_) lock_.lock();
  }

 private:
  Lock& lock_;
  const std::uint64_t epoch_;
};

// A predicate reads what the lock guards, and says so: `[&]() DAMACY_REQUIRES(mutex_) { return ended_; }`.
class Condition {
 public:
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }
  void wait(Lock& lock) { changed_.wait(lock.lock_); }
  template <class Predicate>
  void wait(Lock& lock, Predicate until) DAMACY_NO_THREAD_SAFETY_ANALYSIS {  // the predicate runs with the lock held
    changed_.wait(lock.lock_, std::move(until));
  }
  template <class Rep, class Period>
  std::cv_status wait_for(Lock& lock, std::chrono::duration<Rep, Period> most) {
    return changed_.wait_for(lock.lock_, most);
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, std::chrono::duration<Rep, Period> most, Predicate until) DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_for(lock.lock_, most, std::move(until));
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> when) {
    return changed_.wait_until(lock.lock_, when);
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> when,
                  Predicate until) DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_until(lock.lock_, when, std::move(until));
  }

 private:
  std::condition_variable changed_;
};

// One whose waits a stop token ends, too: they give what the predicate gives then.
class StoppableCondition {
 public:
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }
  template <class Predicate>
  void wait(Lock& lock, Predicate until) DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    changed_.wait(lock.lock_, std::move(until));
  }
  template <class Predicate>
  bool wait(Lock& lock, std::stop_token stop, Predicate until) DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait(lock.lock_, std::move(stop), std::move(until));
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, std::stop_token stop, std::chrono::duration<Rep, Period> most,
                Predicate until) DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_for(lock.lock_, std::move(stop), most, std::move(until));
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> when) {
    return changed_.wait_until(lock.lock_, when);
  }

 private:
  std::condition_variable_any changed_;
};

}  // namespace damacy
