// What an object has for each process that uses it: a forked child gets its own, because its parent's locks may be held
// by threads that the child does not have. Knows forks; not what it keeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "damacy/core/fork.h"

namespace damacy {

// As one_per_process(), for a member: one T for each process, made of the same arguments when it is first used there.
template <class T, class... Args>
class PerProcess {
 public:
  explicit PerProcess(Args... args) : args_(std::move(args)...) {}
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    const Made* const made = made_;
    if (made != nullptr && made->epoch == fork_epoch()) delete made;  // a parent's stays as it is
  }

  T& get() {
    const std::uint64_t epoch = fork_epoch();
    Made* now = made_.load(std::memory_order_acquire);
    while (now == nullptr || now->epoch != epoch) {
      auto fresh = std::apply([&](const Args&... args) { return std::make_unique<Made>(epoch, args...); }, args_);
      if (made_.compare_exchange_strong(now, fresh.get(), std::memory_order_acq_rel)) return fresh.release()->thing;
    }
    return now->thing;
  }

 private:
  struct Made {
    explicit Made(std::uint64_t number, const Args&... args) : epoch(number), thing(args...) {}
    const std::uint64_t epoch;
    T thing;
  };

  const std::tuple<Args...> args_;
  std::atomic<Made*> made_{nullptr};
};

}  // namespace damacy
