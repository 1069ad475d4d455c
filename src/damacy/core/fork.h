// What a process and its forked children may share, and what each has for itself: a child gets its own, because its
// parent's locks may be held by threads that the child does not have. Knows forks; not what is kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

namespace damacy {

// The number of forks since the first call in this line of processes. A child's number differs from its parent's. Takes
// no lock.
[[nodiscard]] std::uint64_t fork_epoch() noexcept;

namespace detail {

// One T of each process, made of the arguments of the first get() there. Nothing destroys it unless drop() is called:
// the destructor is trivial, so that a static one has no guard, which another thread might hold during a fork.
template <class T>
class MadePerProcess {
 public:
  template <class... Args>
  T& get(const Args&... args) {
    const std::uint64_t epoch = fork_epoch();
    Made* now = made_.load(std::memory_order_acquire);
    while (now == nullptr || now->epoch != epoch) {
      auto fresh = std::make_unique<Made>(epoch, args...);
      if (made_.compare_exchange_strong(now, fresh.get(), std::memory_order_acq_rel)) return fresh.release()->thing;
    }
    return now->thing;
  }

  // Destroys that of this process; a forked child leaves its parent's alone.
  void drop() noexcept {
    const Made* const made = made_.load(std::memory_order_acquire);
    if (made != nullptr && made->epoch == fork_epoch()) delete made;
  }

 private:
  struct Made {
    template <class... Args>
    explicit Made(std::uint64_t number, const Args&... args) : epoch(number), thing(args...) {}
    const std::uint64_t epoch;
    T thing;
  };

  std::atomic<Made*> made_{nullptr};
};

}  // namespace detail

// The one T of the process. A forked child gets a new one and does not touch its parent's. Never destroyed.
template <class T>
T& one_per_process() {
  static constinit detail::MadePerProcess<T> made;
  return made.get();
}

// The same for a member: made of the same arguments in each process, and destroyed with the member.
template <class T, class... Args>
class PerProcess {
 public:
  explicit PerProcess(Args... args) : args_(std::move(args)...) {}
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() { made_.drop(); }

  T& get() {
    return std::apply([this](const Args&... args) -> T& { return made_.get(args...); }, args_);
  }

 private:
  const std::tuple<Args...> args_;
  detail::MadePerProcess<T> made_;
};

}  // namespace damacy
