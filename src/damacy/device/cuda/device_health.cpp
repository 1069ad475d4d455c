#include "damacy/device/cuda/device_health.h"

#include "damacy/core/mutex.h"

namespace damacy::cuda {

void DeviceHealth::lose(const Error& error) noexcept {
  const Lock lock(mutex_);
  if (!error_) error_ = error;
  lost_.store(true, std::memory_order_release);
}

Error DeviceHealth::error() const {
  const Lock lock(mutex_);
  return error_ ? *error_ : Error(Status::cuda, "the device is lost", "cuda").with_sticky(true);
}

}  // namespace damacy::cuda
