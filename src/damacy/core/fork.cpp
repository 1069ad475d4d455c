#include "damacy/core/fork.h"

#include <atomic>

#include <pthread.h>

namespace damacy {
namespace {
std::atomic<std::uint64_t> epoch{0};
}  // namespace

std::uint64_t fork_epoch() noexcept {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++epoch; });
  static_cast<void>(registered);
  return epoch;
}

}  // namespace damacy
