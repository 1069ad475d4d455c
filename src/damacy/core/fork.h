// Tells a forked child from its parent without touching a lock: what was made before a fork must not be used after it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace damacy {

// How many forks lie between the first call in this line of processes and now; a child differs from its parent.
[[nodiscard]] std::uint64_t fork_epoch() noexcept;

// The process's one T. A forked child gets a fresh one; its parent's is left alone there, locks and all. Never
// destroyed.
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
