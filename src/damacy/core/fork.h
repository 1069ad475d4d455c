// Detects a fork without taking a lock. Objects made before a fork must not be used in the child.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace damacy {

// The number of forks since the first call in this line of processes. A child's number differs from its parent's.
[[nodiscard]] std::uint64_t fork_epoch() noexcept;

// The one T of the process. A forked child gets a new one and does not touch its parent's, whose locks may be held.
// Never destroyed.
template <class T>
T& one_per_process() {
  struct Made {
    std::uint64_t epoch = 0;
    T thing;
  };
  static std::atomic<Made*> made{nullptr};
  const std::uint64_t epoch = fork_epoch();
  Made* now = made.load(std::memory_order_acquire);
  while (now == nullptr || now->epoch != epoch) {
    auto fresh = std::make_unique<Made>();
    fresh->epoch = epoch;
    if (made.compare_exchange_strong(now, fresh.get(), std::memory_order_acq_rel)) return fresh.release()->thing;
  }
  return now->thing;
}

}  // namespace damacy
