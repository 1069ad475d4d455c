// Whether a device still answers, and the error that ended it.
#pragma once

#include <atomic>
#include <optional>

#include "damacy/core/error.h"
#include "damacy/core/mutex.h"

namespace damacy::cuda {

// The first sticky error of a device. Process-wide and permanent.
class DeviceHealth {
 public:
  bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  void lose(const Error& error) noexcept;  // the first one stays
  Error error() const;                     // is_lost() holds

 private:
  std::atomic<bool> lost_{false};
  mutable Mutex mutex_;
  std::optional<Error> error_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy::cuda
