#include "sweeps/guarded_alloc.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace damacy::testing {
namespace {

constexpr std::size_t kGuard = 4096;  // whole pages, so that what lies between stays aligned
constexpr std::byte kGuardByte{0xc5};

}  // namespace

std::byte* GuardedAlloc::take(std::size_t bytes) {
  std::byte* const memory = pages_.take(bytes + 2 * kGuard);
  std::memset(memory, static_cast<int>(kGuardByte), kGuard);
  std::memset(memory + kGuard + bytes, static_cast<int>(kGuardByte), kGuard);
  std::memset(memory + kGuard, static_cast<int>(0x51 + 0x22 * uses_++ % 5), bytes);
  held_ += bytes;
  return memory + kGuard;
}

void GuardedAlloc::give(std::byte* memory, std::size_t bytes) noexcept {
  const auto intact = [](std::span<const std::byte> guard) {
    return std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kGuardByte; });
  };
  if (!intact({memory - kGuard, kGuard}) || !intact({memory + bytes, kGuard})) ++broken_;
  held_ -= bytes;
  pages_.give(memory - kGuard, bytes + 2 * kGuard);
}

}  // namespace damacy::testing
