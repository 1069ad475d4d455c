// A fibre that notifies sanitizers of stack switches, because they keep a record per stack. Knows no scheduler and no
// kernel. Not part of the library.
#pragma once

#include <cstddef>

#include "support/fibre_switch.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DAMACY_FIBRES_UNDER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define DAMACY_FIBRES_UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define DAMACY_FIBRES_UNDER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define DAMACY_FIBRES_UNDER_TSAN 1
#endif

#if defined(DAMACY_FIBRES_UNDER_ASAN)
#include <sanitizer/common_interface_defs.h>
#elif defined(DAMACY_FIBRES_UNDER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace damacy::gpu::simt {

class SanitizedFibre {
 public:
  // The thread's own stack, which is running already.
  SanitizedFibre() = default;

  // `entry` starts at the first switch to this fibre; it calls begun_by and never returns. The caller owns the stack.
  SanitizedFibre(unsigned char* stack, std::size_t bytes, void (*entry)()) : stack_(stack), bytes_(bytes) {
    prepare(place_, stack, bytes, entry);
#if defined(DAMACY_FIBRES_UNDER_TSAN)
    record_ = __tsan_create_fiber(0);
#endif
  }

  ~SanitizedFibre() {
#if defined(DAMACY_FIBRES_UNDER_TSAN)
    if (stack_ != nullptr) __tsan_destroy_fiber(record_);
#endif
  }

  SanitizedFibre(const SanitizedFibre&) = delete;
  SanitizedFibre& operator=(const SanitizedFibre&) = delete;

  // Leaves this fibre, which is running, for `other`; returns when `other` comes back.
  void go_to(SanitizedFibre& other) {
#if defined(DAMACY_FIBRES_UNDER_ASAN)
    __sanitizer_start_switch_fiber(&record_, other.stack_, other.bytes_);
#elif defined(DAMACY_FIBRES_UNDER_TSAN)
    record_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(other.record_, 0);
#endif
    go(place_, other.place_);
    begun_by(other);
  }

  // `other` has come to this fibre.
  void begun_by([[maybe_unused]] SanitizedFibre& other) {
#if defined(DAMACY_FIBRES_UNDER_ASAN)
    __sanitizer_finish_switch_fiber(record_, &other.stack_, &other.bytes_);
#endif
  }

 private:
  StackPlace place_;
  const void* stack_ = nullptr;
  std::size_t bytes_ = 0;
  [[maybe_unused]] void* record_ = nullptr;  // the sanitizer's
};

}  // namespace damacy::gpu::simt
