// Threads of the library's own: no signal of the user's reaches them.
#pragma once

#include <csignal>

#include <pthread.h>

namespace damacy::detail {

// Signals are for the user's threads: what is started in here inherits a mask that blocks all of them.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace damacy::detail
