// Buffers between guard bytes: detects writes out of bounds and buffers that were not freed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "damacy/device/device.h"

namespace damacy::testing {

// Counts what is taken, and poisons it with a byte that changes with each use. Between guards of a page that must not
// change.
class GuardedAlloc final : public Alloc {
 public:
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;
  std::uint64_t held() const noexcept { return held_; }
  std::uint64_t broken_guards() const noexcept { return broken_; }

 private:
  PageAlloc pages_;
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> broken_{0};
  std::atomic<unsigned> uses_{0};
};

}  // namespace damacy::testing
