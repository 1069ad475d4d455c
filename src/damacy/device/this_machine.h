// The machine with its GPU, for a process whose batches will live on a device that is not bound yet. Makes no CUDA
// context.
#pragma once

#include "damacy/core/machine.h"
#include "damacy/device/device.h"

namespace damacy {

// As it is now. Without a number, the GPU is the first visible one.
[[nodiscard]] Machine this_machine(const DeviceChoice& choice);

}  // namespace damacy
