// The table of driver functions, loaded at run time, so that nothing links libcuda and tests can use a fake library.
// Knows names, versions and which calls an old driver may lack; not what they are for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cuda.h>

#include "damacy/device/cuda/architectures.h"
#include "damacy/device/cuda_device.h"

namespace damacy::cuda {

// cuda.h renames some of these to their latest version; the table follows it, name and type alike.
// clang-format off
#define DAMACY_DRIVER_CALLS(CALL)          \
  CALL(cuInit)                             \
  CALL(cuDriverGetVersion)                 \
  CALL(cuGetErrorName)                     \
  CALL(cuGetErrorString)                   \
  CALL(cuDeviceGetCount)                   \
  CALL(cuDeviceGet)                        \
  CALL(cuDeviceGetName)                    \
  CALL(cuDeviceGetAttribute)               \
  CALL(cuDevicePrimaryCtxRetain)           \
  CALL(cuDevicePrimaryCtxRelease)          \
  CALL(cuDevicePrimaryCtxGetState)         \
  CALL(cuCtxPushCurrent)                   \
  CALL(cuCtxPopCurrent)                    \
  CALL(cuCtxGetCurrent)                    \
  CALL(cuCtxSetCurrent)                    \
  CALL(cuCtxGetDevice)                     \
  CALL(cuThreadExchangeStreamCaptureMode)  \
  CALL(cuMemAlloc)                         \
  CALL(cuMemFree)                          \
  CALL(cuMemAllocAsync)                    \
  CALL(cuMemFreeAsync)                     \
  CALL(cuMemHostAlloc)                     \
  CALL(cuMemFreeHost)                      \
  CALL(cuMemGetInfo)                       \
  CALL(cuMemHostRegister)                  \
  CALL(cuMemHostUnregister)                \
  CALL(cuPointerGetAttribute)              \
  CALL(cuPointerGetAttributes)             \
  CALL(cuMemcpyAsync)                      \
  CALL(cuMemsetD8Async)                    \
  CALL(cuLaunchHostFunc)                   \
  CALL(cuStreamCreateWithPriority)         \
  CALL(cuStreamDestroy)                    \
  CALL(cuStreamWaitEvent)                  \
  CALL(cuStreamIsCapturing)                \
  CALL(cuStreamQuery)                      \
  CALL(cuEventCreate)                      \
  CALL(cuEventDestroy)                     \
  CALL(cuEventRecord)                      \
  CALL(cuEventQuery)
// clang-format on

// CUmemcpyAttributes of CUDA 13, which older toolkits do not know. Locations are only for managed memory.
struct BatchAttributes {
  int source_order = 1;  // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
  int locations[4] = {};
  unsigned flags = 0;
};
#if CUDA_VERSION >= 13000
static_assert(sizeof(BatchAttributes) == sizeof(CUmemcpyAttributes));
#endif

struct Calls {
#define DAMACY_DECLARE(name) decltype(&::name) name = nullptr;
  DAMACY_DRIVER_CALLS(DAMACY_DECLARE)
#undef DAMACY_DECLARE
  // Declared here, as older toolkits do not know them.
  CUresult (*cuCtxRecordEvent)(CUcontext, CUevent) = nullptr;  // null before CUDA 12.5
  // Null before CUDA 13. `firsts`: the first copy that each of the attributes is for.
  CUresult (*copy_batch)(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,
                         BatchAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                         CUstream stream) = nullptr;
  CUresult (*cuEventElapsedTime)(float* ms, CUevent begin, CUevent end) = nullptr;  // the later one from CUDA 12.8 on
};

class DeviceHealth;

// An opened driver with its devices. Never closed: work may be in flight until the process is gone.
struct DriverApi {
  Calls calls;
  BuiltKernels kernels;
  int version = 0;  // of CUDA that the driver is for, such as 12040
  int device_count = 0;
  std::vector<std::unique_ptr<DeviceHealth>> health;  // by ordinal
  std::uint64_t fork_epoch = 0;                       // of the process that opened it

  DriverApi();
  ~DriverApi();
  DriverApi(const DriverApi&) = delete;
  DriverApi& operator=(const DriverApi&) = delete;
};

struct OpenedDriver {
  std::shared_ptr<DriverApi> api;  // null unless probe.state is usable
  CudaProbe probe;
};

// A call's result: its name, with the driver's explanation.
std::string described(const Calls& calls, CUresult result);

// Empty: the device of that ordinal can be used.
std::string why_unusable(const DriverApi& api, int ordinal);

// Opens the library of that path and looks for devices that these kernels run on. Pure except for the library.
OpenedDriver open_driver(const std::string& library, const BuiltKernels& kernels = built_kernels());

// The process's own, opened at the first call.
const OpenedDriver& process_driver();

}  // namespace damacy::cuda
