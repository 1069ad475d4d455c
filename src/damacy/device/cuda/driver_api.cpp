// Opens the driver. Knows when a driver is usable.
#include "damacy/device/cuda/driver_api.h"

#include <cstdlib>
#include <type_traits>

#include <dlfcn.h>

#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/device/cuda/device_health.h"

namespace damacy::cuda {
namespace {

// The driver's own number, as people know it, of the first driver for that CUDA version.
std::string first_driver_of(int version) {
  switch (version) {
    case 12000:
      return " (driver 525 or newer)";
    case 13000:
      return " (driver 580 or newer)";
    default:
      return {};
  }
}

CudaProbe refusal(CudaState state, std::string why) {
  return {.state = state, .why = std::move(why), .has_driver = state != CudaState::no_driver};
}

CudaProbe no_driver(std::string_view seen) {
  return refusal(CudaState::no_driver, formatted("no driver: {}", seen));
}
CudaProbe too_old(std::string_view seen) {
  return refusal(CudaState::driver_too_old, formatted("driver too old: {}", seen));
}
CudaProbe no_device(std::string_view seen) {
  return refusal(CudaState::no_device, formatted("no device: {}", seen));
}

#define DAMACY_TEXT_OF(name) #name
#define DAMACY_SYMBOL(name) DAMACY_TEXT_OF(name)

// The name of the first function that is missing, or null.
const char* load_calls(void* library, Calls& calls) {
#define DAMACY_LOAD(name)                                                                     \
  calls.name = reinterpret_cast<decltype(calls.name)>(::dlsym(library, DAMACY_SYMBOL(name))); \
  if (calls.name == nullptr) return DAMACY_SYMBOL(name);
  DAMACY_DRIVER_CALLS(DAMACY_LOAD)
#undef DAMACY_LOAD
  const auto load = [library](auto& call, const char* name) {
    if (call == nullptr) call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(::dlsym(library, name));
  };
  load(calls.cuCtxRecordEvent, "cuCtxRecordEvent");
  load(calls.copy_batch, "cuMemcpyBatchAsync_v2");
  load(calls.cuEventElapsedTime, "cuEventElapsedTime_v2");
  load(calls.cuEventElapsedTime, "cuEventElapsedTime");
  return calls.cuEventElapsedTime != nullptr ? nullptr : "cuEventElapsedTime";
}

std::string error_name(const Calls& calls, CUresult result) {
  const char* name = nullptr;
  calls.cuGetErrorName(result, &name);
  return name != nullptr ? std::string(name) : formatted("error {}", static_cast<int>(result));
}

int attribute(const DriverApi& api, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return api.calls.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

std::string name_of(const DriverApi& api, CUdevice device) {
  char name[256] = "";
  return api.calls.cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS ? name : "unknown GPU";
}

CudaProbe start(DriverApi& api) {
  const CUresult asked = api.calls.cuDriverGetVersion(&api.version);
  if (asked != CUDA_SUCCESS) return no_driver(formatted("cuDriverGetVersion failed: {}", error_name(api.calls, asked)));
  if (const int oldest = api.kernels.oldest_driver; api.version < oldest)
    return too_old(formatted("it is for CUDA {}, needed is {}{}", version_text(api.version), version_text(oldest),
                             first_driver_of(oldest)));
  const CUresult begun = api.calls.cuInit(0);
  if (begun == CUDA_ERROR_STUB_LIBRARY) return no_driver("the library found is a stub");
  if (begun != CUDA_SUCCESS) return no_device(formatted("cuInit failed: {}", error_name(api.calls, begun)));
  const CUresult counted = api.calls.cuDeviceGetCount(&api.device_count);
  if (counted != CUDA_SUCCESS)
    return no_device(formatted("cuDeviceGetCount failed: {}", error_name(api.calls, counted)));
  if (api.device_count == 0) return no_device("the driver counts none");
  std::string why;
  for (int i = 0; i < api.device_count; ++i) {
    why = why_unusable(api, i);
    if (why.empty()) return {.state = CudaState::usable, .why = "", .has_driver = true};
  }
  return no_device(why);
}

}  // namespace

std::string described(const Calls& calls, CUresult result) {
  const char* name = nullptr;
  const char* words = nullptr;
  calls.cuGetErrorName(result, &name);
  calls.cuGetErrorString(result, &words);
  if (name == nullptr) return formatted("error {}", static_cast<int>(result));
  return words != nullptr ? formatted("{} ({})", name, words) : std::string(name);
}

std::string why_unusable(const DriverApi& api, int ordinal) {
  CUdevice device = 0;
  if (const CUresult found = api.calls.cuDeviceGet(&device, ordinal); found != CUDA_SUCCESS)
    return formatted("device {}: {}", ordinal, described(api.calls, found));
  const int major = attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  const int minor = attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (const std::string why = why_no_kernels(api.kernels, 10 * major + minor, api.version); !why.empty())
    return formatted("device {} ({}) has compute capability {}.{}: {}", ordinal, name_of(api, device), major, minor,
                     why);
  if (attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED)
    return formatted("device {} is in prohibited mode", ordinal);
  return {};
}

DriverApi::DriverApi() : fork_epoch(damacy::fork_epoch()) {}
DriverApi::~DriverApi() = default;

OpenedDriver open_driver(const std::string& library, const BuiltKernels& kernels) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* seen = ::dlerror();
    return {nullptr, no_driver(seen != nullptr ? seen : library)};
  }
  auto api = std::make_shared<DriverApi>();
  api->kernels = kernels;
  if (const char* missing = load_calls(handle, api->calls))
    return {nullptr, too_old(formatted("it lacks {}", missing))};
  CudaProbe probe = start(*api);
  if (probe.state != CudaState::usable) return {nullptr, std::move(probe)};
  for (int i = 0; i < api->device_count; ++i) api->health.push_back(std::make_unique<DeviceHealth>());
  return {std::move(api), std::move(probe)};
}

const OpenedDriver& process_driver() {
  static const OpenedDriver* one = [] {  // never destroyed: objects may outlive main()
    const char* path = std::getenv("DAMACY_LIBCUDA");
    return new OpenedDriver(open_driver(path != nullptr && *path != '\0' ? path : "libcuda.so.1"));
  }();
  return *one;
}

}  // namespace damacy::cuda
