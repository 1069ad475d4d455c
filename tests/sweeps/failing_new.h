// Makes allocations of the whole program fail on purpose: the global operator new of the executable that links
// failing_new.cpp. Knows counts; not who asks.
#pragma once

#include <cstdint>

namespace damacy::testing {

// From here on allocations are counted, and the n-th (from 1) throws std::bad_alloc, once. 0: none fails.
void fail_allocation(std::uint64_t n) noexcept;
// Counts and fails no more; how many were counted.
std::uint64_t end_failing() noexcept;
[[nodiscard]] bool allocation_failed() noexcept;
// Of the whole program, by operator new.
[[nodiscard]] std::int64_t live_allocations() noexcept;

// While one lives, allocations of this thread are neither counted nor failed: what a test needs for itself.
class Spared {
 public:
  Spared() noexcept;
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
};

// While one lives, every allocation of this thread throws std::bad_alloc.
class Starved {
 public:
  Starved() noexcept;
  ~Starved();
  Starved(const Starved&) = delete;
  Starved& operator=(const Starved&) = delete;
};

}  // namespace damacy::testing
