// Waits for what other threads do without notifying anybody: a test looks again and again. Knows no threads.
#pragma once

#include <chrono>
#include <thread>

namespace damacy::testing {

// Whether `ready()` becomes true. A minute is for machines under load: what never comes fails the test then.
template <class Ready>
[[nodiscard]] bool eventually(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!ready()) {
    if (std::chrono::steady_clock::now() >= end) return ready();
    std::this_thread::yield();
  }
  return true;
}

}  // namespace damacy::testing
