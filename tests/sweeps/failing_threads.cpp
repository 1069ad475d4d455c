#include "sweeps/failing_threads.h"

#include <atomic>
#include <cerrno>

#include <dlfcn.h>
#include <pthread.h>

namespace {

std::atomic<std::uint64_t> left{0};  // starts until one fails
std::atomic<bool> all_behind{false};
std::atomic<bool> failed{false};

}  // namespace

// In place of the C library's, for the C++ library too. Sanitizers have their own in between.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
namespace {

bool fails() noexcept {
  if (failed && all_behind) return true;
  std::uint64_t now = left;
  while (now > 0 && !left.compare_exchange_weak(now, now - 1)) {
  }
  if (now != 1) return false;
  failed = true;
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread, const pthread_attr_t* how,
                                                                     void* (*body)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return fails() ? EAGAIN : real(thread, how, body, argument);
}
#endif

namespace damacy::testing {

void fail_thread_start(std::uint64_t n, bool for_ever) noexcept {
  failed = false;
  all_behind = for_ever;
  left = n;
}
bool thread_start_failed() noexcept {
  return failed;
}

}  // namespace damacy::testing
