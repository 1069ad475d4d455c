// GPUs through CUDA's driver, which is loaded at run time. A build without CUDA has the same functions, which report
// that. Knows contexts and ordinals; exposes no CUDA type.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "damacy/device/device.h"

namespace damacy {

enum class CudaState { usable, built_without, no_driver, driver_too_old, no_device };

struct CudaProbe {
  CudaState state = CudaState::built_without;
  std::string why;          // "built without CUDA", "no driver", "driver too old", "no device", each with what was seen
  bool has_driver = false;  // there is a driver, be it of no use
};

// What this library was built with: the CUDA version, the oldest driver and the GPUs that there are kernels for, in one
// line. Empty: built without CUDA.
std::string cuda_build();

// Opens the driver at the first call of the process: DAMACY_LIBCUDA if that is set, else libcuda.so.1.
CudaProbe probe_cuda();

// The device of the context that is current on this thread, primary or not. Null if there is none or CUDA is not
// usable.
std::shared_ptr<Device> bind_current_context();

// The primary context of device `index`, retained. Error(inval, "no-device") if there is no such usable device.
std::shared_ptr<Device> bind_primary_context(int index);

// The device whose memory contains `pointer`, with the context of the allocation, or the primary one (stream-ordered
// memory has no context). Includes managed memory. Null if it is host memory or unknown to CUDA. Devices are cached.
std::shared_ptr<Device> bind_pointer(std::uint64_t pointer);

// Leaves a context that is current on this thread as it is, else makes the primary context of `index` current. False:
// CUDA is not usable. Error(inval, "no-device") if only this device is not.
bool make_primary_current(int index);

}  // namespace damacy
