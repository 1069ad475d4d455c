// A GPU as a Device, and how one is chosen by context. Knows on which streams an event may be recorded, and when.
#include "damacy/device/cuda/cuda_device.h"

#include <array>
#include <cstdio>
#include <map>
#include <tuple>

#include "damacy/core/control_groups.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/device/cuda/context.h"
#include "damacy/device/cuda/event.h"
#include "damacy/device/cuda/idle_fence.h"
#include "damacy/device/cuda/memory.h"
#include "damacy/device/cuda/stream.h"
#include "damacy/device/cuda_device.h"

namespace damacy::cuda {
namespace {

// 0 and 1 are the legacy default stream, as in DLPack; CU_STREAM_PER_THREAD is 2 already.
CUstream stream_of(std::uint64_t handle) noexcept {
  return handle == 0 ? CU_STREAM_LEGACY : reinterpret_cast<CUstream>(handle);
}

bool means_capture(CUresult result) noexcept {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<const Context> context)
      : context_(std::move(context)),
        device_memory_(std::make_shared<DeviceMemory>(context_)),
        pinned_memory_(std::make_shared<PinnedMemory>(context_)),
        helper_(context_) {
    CUdevice device = 0;
    char name[256] = "";
    if (calls().cuDeviceGet(&device, index()) == CUDA_SUCCESS) calls().cuDeviceGetName(name, sizeof name, device);
    name_ = formatted("cuda:{} {}", index(), name);
  }

  std::string name() const override { return name_; }
  int index() const noexcept override { return context_->ordinal(); }
  bool is_host() const noexcept override { return false; }
  std::string near_cores() const override {
    char path[64] = "";
    const auto ask = [&] {
      const Use use(*context_);
      CUdevice device = 0;
      context_->check(calls().cuDeviceGet(&device, index()), "cuDeviceGet");
      const auto number = [&](CUdevice_attribute which) {
        int value = 0;
        context_->check(calls().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
        return value;
      };
      std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/local_cpulist",
                    number(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID), number(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
                    number(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
    };
    if (failure_of(ask)) return {};  // a driver need not know the bus
    return files_below("")(path);
  }
  std::shared_ptr<Alloc> device_memory() override { return device_memory_; }
  std::shared_ptr<Alloc> pinned_memory() override { return pinned_memory_; }
  std::shared_ptr<void> page_lock(std::span<std::byte> memory) override {
    return std::make_shared<PageLock>(context_, memory);
  }
  std::shared_ptr<OrderedAlloc> make_ordered_memory() override {
    const Use use(*context_);
    CUdevice device = 0;
    int pools = 0;
    context_->check(calls().cuDeviceGet(&device, index()), "cuDeviceGet");
    context_->check(calls().cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device),
                    "cuDeviceGetAttribute");
    return pools != 0 ? std::make_shared<OrderedDeviceMemory>(context_) : nullptr;
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CudaStream>(context_); }
  std::unique_ptr<Stream> borrow_stream(std::uint64_t handle) override {
    return std::make_unique<CudaStream>(context_, stream_of(handle));
  }
  void check_usable() override { context_->check_usable(); }

  std::optional<Memory> memory() override {
    const Use use(*context_);
    std::size_t free = 0, total = 0;
    context_->check(calls().cuMemGetInfo(&free, &total), "cuMemGetInfo");
    return Memory{free, total};
  }

  std::span<std::byte> allocation_of(std::span<std::byte> part) override {
    const Use use(*context_);
    const auto pointer = reinterpret_cast<CUdeviceptr>(part.data());
    CUdeviceptr start = 0;
    std::size_t size = 0;
    if (calls().cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer) != CUDA_SUCCESS ||
        calls().cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer) != CUDA_SUCCESS)
      return part;
    return {reinterpret_cast<std::byte*>(start), size};
  }

  std::optional<Event> try_fence(std::uint64_t stream) override {
    const Use use(*context_);
    if (is_capturing(*context_, stream_of(stream))) return std::nullopt;
    // An event costs more while other threads copy. That of the legacy stream means work of blocking streams, too.
    if (calls().cuStreamQuery(stream_of(stream)) == CUDA_SUCCESS) return Event();
    return record_on(context_, stream_of(stream), /*timed=*/false);
  }

  Event fence_event(std::uint64_t event) override {
    const Use use(*context_);
    const Lock lock(helper_mutex_);
    const auto helper = reinterpret_cast<CUstream>(helper_.native_handle());
    context_->check(calls().cuStreamWaitEvent(helper, reinterpret_cast<CUevent>(event), CU_EVENT_WAIT_DEFAULT),
                    "cuStreamWaitEvent");
    return record_on(context_, helper, /*timed=*/false);
  }

  Event fence_all(bool spare_captures) override {
    const Use use(*context_);
    // Captures on non-blocking streams are not visible there.
    if (calls().cuCtxRecordEvent != nullptr && !spare_captures && !is_capturing(*context_, CU_STREAM_LEGACY)) {
      auto event = std::make_shared<CudaEvent>(context_, /*timed=*/false);
      const CUresult result = calls().cuCtxRecordEvent(context_->handle(), event->handle());
      if (result == CUDA_SUCCESS) return Event(std::move(event));
      if (!means_capture(result)) context_->check(result, "cuCtxRecordEvent");
    }
    return Event(std::make_shared<IdleFence>(context_));
  }

  void make_wait(std::uint64_t stream, const Event& event) override {
    if (event.ready()) return;  // and a stream that is being captured must not wait for what is outside of its graph
    const Use use(*context_);
    wait_on(*context_, stream_of(stream), event);
  }

 private:
  const Calls& calls() const noexcept { return context_->calls(); }

  const std::shared_ptr<const Context> context_;
  const std::shared_ptr<Alloc> device_memory_;
  const std::shared_ptr<Alloc> pinned_memory_;
  Mutex helper_mutex_;
  CudaStream helper_ DAMACY_GUARDED_BY(helper_mutex_);  // turns foreign events into ours
  std::string name_;
};

// The error of a call that concerns no context of ours yet.
void check_free(const DriverApi& api, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  api.calls.cuGetErrorName(result, &name);
  throw Error(Status::cuda, formatted("{}: {}", call, name != nullptr ? name : "unknown error"), "cuda")
      .with_sticky(is_sticky(result));
}

void check_process(const DriverApi& api) {
  if (damacy::fork_epoch() != api.fork_epoch)
    throw Error(Status::shutdown, "CUDA was in use before this process was forked", "forked").in_stage("forked");
}

CUdevice usable_device(const DriverApi& api, int index) {
  if (index < 0 || index >= api.device_count)
    throw Error(Status::inval, formatted("no CUDA device {}: there are {}", index, api.device_count), "no-device");
  if (const std::string why = why_unusable(api, index); !why.empty())
    throw Error(Status::inval, formatted("no usable CUDA device {}: {}", index, why), "no-device");
  if (const auto& health = *api.health[static_cast<std::size_t>(index)]; health.is_lost()) throw health.error();
  CUdevice device = 0;
  check_free(api, api.calls.cuDeviceGet(&device, index), "cuDeviceGet");
  return device;
}

int ordinal_of(const DriverApi& api, CUdevice device) {
  for (int i = 0; i < api.device_count; ++i) {
    CUdevice candidate = 0;
    if (api.calls.cuDeviceGet(&candidate, i) == CUDA_SUCCESS && candidate == device) return i;
  }
  throw Error(Status::inval, "the current context belongs to a device that the driver does not list", "no-device");
}

// Retains `context` if it is the device's primary one, so that it lives as long as we use it.
bool retain_if_primary(const DriverApi& api, CUdevice device, CUcontext context) {
  unsigned flags = 0;
  int active = 0;
  if (api.calls.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0) return false;
  CUcontext primary = nullptr;
  if (api.calls.cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) return false;
  if (primary == context) return true;
  api.calls.cuDevicePrimaryCtxRelease(device);
  return false;
}

// Devices found from pointers.
struct PointerDevices {
  Mutex mutex;
  std::map<std::tuple<const DriverApi*, CUcontext, int>, std::shared_ptr<Device>> devices DAMACY_GUARDED_BY(mutex);
};

CUcontext current_context(const DriverApi& api) {
  CUcontext current = nullptr;
  check_free(api, api.calls.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  return current;
}

}  // namespace

std::shared_ptr<Device> bind_current(const std::shared_ptr<DriverApi>& api) {
  check_process(*api);
  const CUcontext current = current_context(*api);
  if (current == nullptr) return nullptr;
  CUdevice device = 0;
  check_free(*api, api->calls.cuCtxGetDevice(&device), "cuCtxGetDevice");
  const int ordinal = ordinal_of(*api, device);
  usable_device(*api, ordinal);
  const bool retained = retain_if_primary(*api, device, current);
  return std::make_shared<CudaDevice>(std::make_shared<const Context>(api, current, ordinal, retained));
}

std::shared_ptr<Device> bind_primary(const std::shared_ptr<DriverApi>& api, int index) {
  check_process(*api);
  const CUdevice device = usable_device(*api, index);
  CUcontext primary = nullptr;
  check_free(*api, api->calls.cuDevicePrimaryCtxRetain(&primary, device), "cuDevicePrimaryCtxRetain");
  return std::make_shared<CudaDevice>(std::make_shared<const Context>(api, primary, index, /*retained=*/true));
}

std::shared_ptr<Device> bind_pointer(const std::shared_ptr<DriverApi>& api, std::uint64_t pointer) {
  check_process(*api);
  unsigned type = 0, managed = 0;
  int ordinal = 0;
  CUcontext context = nullptr;
  // One call for all: small requests are many. What the driver does not know of the pointer stays zero.
  std::array asked{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
  std::array<void*, asked.size()> answers{&type, &managed, &ordinal, &context};
  const CUresult result =
      api->calls.cuPointerGetAttributes(asked.size(), asked.data(), answers.data(), static_cast<CUdeviceptr>(pointer));
  if (result != CUDA_SUCCESS || (type != CU_MEMORYTYPE_DEVICE && managed == 0)) return nullptr;

  auto& bound = one_per_process<PointerDevices>();
  const Lock lock(bound.mutex);
  auto& device = bound.devices[{api.get(), context, ordinal}];
  if (device != nullptr) return device;
  if (context == nullptr) return device = bind_primary(api, ordinal);
  const bool retained = retain_if_primary(*api, usable_device(*api, ordinal), context);
  return device = std::make_shared<CudaDevice>(std::make_shared<const Context>(api, context, ordinal, retained));
}

void make_primary_current(const std::shared_ptr<DriverApi>& api, int index) {
  check_process(*api);
  if (current_context(*api) != nullptr) return;
  const CUdevice device = usable_device(*api, index);
  CUcontext primary = nullptr;  // retained for the rest of the process: it stays current here
  check_free(*api, api->calls.cuDevicePrimaryCtxRetain(&primary, device), "cuDevicePrimaryCtxRetain");
  check_free(*api, api->calls.cuCtxSetCurrent(primary), "cuCtxSetCurrent");
}

}  // namespace damacy::cuda

namespace damacy {

std::string cuda_build() {
  return cuda::build_text(cuda::built_kernels());
}

CudaProbe probe_cuda() {
  const auto& [api, probe] = cuda::process_driver();
  if (api != nullptr && fork_epoch() != api->fork_epoch)
    return {.state = CudaState::no_device,
            .why = "no device: CUDA was in use before this process was forked",
            .has_driver = true};
  return probe;
}

std::shared_ptr<Device> bind_current_context() {
  const auto& api = cuda::process_driver().api;
  return api == nullptr ? nullptr : cuda::bind_current(api);
}

std::shared_ptr<Device> bind_primary_context(int index) {
  const auto& [api, probe] = cuda::process_driver();
  if (api == nullptr) throw Error(Status::inval, formatted("no CUDA device {}: {}", index, probe.why), "no-device");
  return cuda::bind_primary(api, index);
}

std::shared_ptr<Device> bind_pointer(std::uint64_t pointer) {
  const auto& api = cuda::process_driver().api;
  return api == nullptr ? nullptr : cuda::bind_pointer(api, pointer);
}

bool make_primary_current(int index) {
  const auto& api = cuda::process_driver().api;
  if (api == nullptr) return false;
  cuda::make_primary_current(api, index);
  return true;
}

}  // namespace damacy
