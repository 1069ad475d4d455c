// Devices of a driver that is already open. cuda_device.h in the parent folder does the same for the process's own
// driver.
#pragma once

#include <memory>

#include "damacy/device/cuda/driver_api.h"
#include "damacy/device/device.h"

namespace damacy::cuda {

std::shared_ptr<Device> bind_current(const std::shared_ptr<DriverApi>& api);
std::shared_ptr<Device> bind_primary(const std::shared_ptr<DriverApi>& api, int index);
std::shared_ptr<Device> bind_pointer(const std::shared_ptr<DriverApi>& api, std::uint64_t pointer);
void make_primary_current(const std::shared_ptr<DriverApi>& api, int index);

}  // namespace damacy::cuda
