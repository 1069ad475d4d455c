// A fake driver without a GPU: memory is host memory, and streams run work at once. Refuses the same calls as a real
// driver (handles of other contexts, no current context, calls inside host functions), counts calls, and fails on
// request.
#include "fakes/libcuda/fake_libcuda.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <malloc.h>

#pragma GCC visibility push(default)

struct CUctx_st {
  int device = 0;
  bool is_destroyed = false;
};
struct CUstream_st {
  CUcontext context = nullptr;
};
struct CUevent_st {
  CUcontext context = nullptr;
  bool is_timed = false;
  std::int64_t queries = 0;
  std::chrono::steady_clock::time_point at;
};

namespace {

constexpr int kMostDevices = 8;

struct Fault {
  std::string name;
  std::uint64_t left = 0;  // counted calls until the fault; 0: no fault
  CUresult code = CUDA_SUCCESS;
  bool for_ever = false;
};

struct Driver {
  std::recursive_mutex mutex;
  std::map<std::string, std::uint64_t> calls;
  Fault fault;
  std::string struck;
  std::map<std::string, std::int64_t> knobs;
  CUctx_st primary[kMostDevices];
  std::int64_t retains = 0;
  std::int64_t broken_captures = 0;
  std::vector<std::unique_ptr<CUctx_st>> contexts;
  std::set<void*> device_memory, pinned_memory, registered;
  std::set<CUstream> streams;
  std::set<CUevent> events;
};

Driver& driver() {
  static Driver* one = new Driver;
  return *one;
}

thread_local std::vector<CUcontext> stack;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local bool in_host_function = false;

using Lock = std::lock_guard<std::recursive_mutex>;

std::int64_t knob(const char* name, std::int64_t otherwise) {
  const auto at = driver().knobs.find(name);
  return at == driver().knobs.end() ? otherwise : at->second;
}

CUresult counted(const char* name) {
  if (in_host_function) return CUDA_ERROR_NOT_PERMITTED;
  Driver& d = driver();
  ++d.calls[name];
  ++d.calls[""];
  if (d.fault.left == 0 || (!d.fault.name.empty() && d.fault.name != name)) return CUDA_SUCCESS;
  if (d.fault.left > 1) {
    --d.fault.left;
    return CUDA_SUCCESS;
  }
  if (!d.fault.for_ever) d.fault.left = 0;
  d.struck = name;
  return d.fault.code;
}

// Counts a call and checks that the current context is alive.
CUresult in_context(const char* name) {
  if (const CUresult result = counted(name); result != CUDA_SUCCESS) return result;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  return stack.back()->is_destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

bool is_special(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

CUresult checked(CUstream stream) {
  if (is_special(stream)) return CUDA_SUCCESS;
  return driver().streams.contains(stream) && stream->context == stack.back() ? CUDA_SUCCESS
                                                                              : CUDA_ERROR_INVALID_HANDLE;
}
CUresult checked(CUevent event) {
  return driver().events.contains(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult take(std::set<void*>& from, void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (*memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  from.insert(*memory);
  return CUDA_SUCCESS;
}
CUresult give(std::set<void*>& to, void* memory) {
  if (to.erase(memory) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(memory);
  return CUDA_SUCCESS;
}

bool is_device(CUdevice device) {
  return device >= 0 && device < knob("devices", 2);
}

}  // namespace

#define FAKE_BEGIN(name)           \
  const Lock lock(driver().mutex); \
  if (const CUresult begun = counted(#name); begun != CUDA_SUCCESS) return begun
#define FAKE_IN_CONTEXT(name)      \
  const Lock lock(driver().mutex); \
  if (const CUresult begun = in_context(#name); begun != CUDA_SUCCESS) return begun
#define FAKE_CHECK(handle) \
  if (const CUresult valid = checked(handle); valid != CUDA_SUCCESS) return valid

// Calls that a capture in the strictest mode forbids on all threads that did not relax their own mode.
#define FAKE_MIND_CAPTURES()                                                         \
  if (knob("capturing", 0) != 0 && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) { \
    ++driver().broken_captures;                                                      \
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                                    \
  }

extern "C" {

void fake_cuda_reset() {
  Driver& d = driver();
  const Lock lock(d.mutex);
  for (void* memory : d.device_memory) std::free(memory);
  for (void* memory : d.pinned_memory) std::free(memory);
  for (CUstream stream : d.streams) delete stream;
  for (CUevent event : d.events) delete event;
  d.device_memory.clear();
  d.pinned_memory.clear();
  d.registered.clear();
  d.streams.clear();
  d.events.clear();
  d.contexts.clear();
  d.calls.clear();
  d.knobs.clear();
  d.fault = {};
  d.retains = d.broken_captures = 0;
  for (CUctx_st& primary : d.primary) primary.is_destroyed = false;
  stack.clear();
}
void fake_cuda_fail(const char* name, std::uint64_t nth, int code, int for_ever) {
  const Lock lock(driver().mutex);
  driver().fault = {name, nth, static_cast<CUresult>(code), for_ever != 0};
  driver().struck.clear();
}
const char* fake_cuda_struck() {
  const Lock lock(driver().mutex);
  return driver().struck.c_str();
}
std::uint64_t fake_cuda_calls(const char* name) {
  const Lock lock(driver().mutex);
  return driver().calls[name];
}
void fake_cuda_set(const char* what, std::int64_t value) {
  const Lock lock(driver().mutex);
  driver().knobs[what] = value;
}
std::int64_t fake_cuda_live(const char* what) {
  Driver& d = driver();
  const Lock lock(d.mutex);
  const std::map<std::string, std::int64_t> live{{"device_memory", d.device_memory.size()},
                                                 {"pinned_memory", d.pinned_memory.size() + d.registered.size()},
                                                 {"streams", d.streams.size()},
                                                 {"events", d.events.size()},
                                                 {"retains", d.retains},
                                                 {"broken_captures", d.broken_captures}};
  return live.at(what);
}
CUcontext fake_cuda_make_context(int device) {
  const Lock lock(driver().mutex);
  driver().contexts.push_back(std::make_unique<CUctx_st>());
  driver().contexts.back()->device = device;
  return driver().contexts.back().get();
}
void fake_cuda_destroy_context(CUcontext context) {
  const Lock lock(driver().mutex);
  context->is_destroyed = true;
}
std::int64_t fake_cuda_stack_depth() {
  return static_cast<std::int64_t>(stack.size());
}

CUresult cuInit(unsigned) {
  FAKE_BEGIN(cuInit);
  return static_cast<CUresult>(knob("init", CUDA_SUCCESS));
}
CUresult cuDriverGetVersion(int* version) {
  FAKE_BEGIN(cuDriverGetVersion);
  *version = static_cast<int>(knob("version", CUDA_VERSION));
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
                                              : nullptr;
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** words) {
  *words = "as the test wants it";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  FAKE_BEGIN(cuDeviceGetCount);
  *count = static_cast<int>(knob("devices", 2));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  FAKE_BEGIN(cuDeviceGet);
  *device = ordinal;
  return is_device(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  FAKE_BEGIN(cuDeviceGetName);
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size));
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  FAKE_BEGIN(cuDeviceGetAttribute);
  const auto capability = static_cast<int>(knob("capability", 90));
  *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? capability / 10
           : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? capability % 10
           : which == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED   ? static_cast<int>(knob("pools", 1))
                                                                   : 0;
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FAKE_BEGIN(cuDevicePrimaryCtxRetain);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  ++driver().retains;
  *context = &driver().primary[device];
  (*context)->device = device;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  FAKE_BEGIN(cuDevicePrimaryCtxRelease);
  --driver().retains;
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  FAKE_BEGIN(cuDevicePrimaryCtxGetState);
  *flags = 0;
  *active = driver().retains > 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  FAKE_BEGIN(cuCtxPushCurrent);
  if (context == nullptr || context->is_destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  stack.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  FAKE_BEGIN(cuCtxGetCurrent);
  *context = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  FAKE_BEGIN(cuCtxSetCurrent);
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  FAKE_IN_CONTEXT(cuCtxGetDevice);
  *device = stack.back()->device;
  return CUDA_SUCCESS;
}
#ifndef FAKE_OLD_CUDA  // since CUDA 12.5
CUresult cuCtxRecordEvent(CUcontext context, CUevent event) {
  FAKE_BEGIN(cuCtxRecordEvent);
  FAKE_CHECK(event);
  if (event->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if (knob("capturing", 0) != 0) {
    ++driver().broken_captures;  // in all modes, like the real driver
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  event->at = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}
#endif
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* memory, std::size_t bytes) {
  FAKE_IN_CONTEXT(cuMemAlloc);
  FAKE_MIND_CAPTURES();
  void* taken = nullptr;
  const CUresult result = take(driver().device_memory, &taken, bytes);
  *memory = reinterpret_cast<CUdeviceptr>(taken);
  return result;
}
CUresult cuMemFree(CUdeviceptr memory) {
  FAKE_IN_CONTEXT(cuMemFree);
  FAKE_MIND_CAPTURES();
  return give(driver().device_memory, reinterpret_cast<void*>(memory));
}
CUresult cuMemAllocAsync(CUdeviceptr* memory, std::size_t bytes, CUstream stream) {
  FAKE_IN_CONTEXT(cuMemAllocAsync);
  FAKE_CHECK(stream);
  void* taken = nullptr;
  const CUresult result = take(driver().device_memory, &taken, bytes);
  *memory = reinterpret_cast<CUdeviceptr>(taken);
  return result;
}
CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  FAKE_IN_CONTEXT(cuMemFreeAsync);
  FAKE_CHECK(stream);
  return give(driver().device_memory, reinterpret_cast<void*>(memory));
}
CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  FAKE_IN_CONTEXT(cuMemHostAlloc);
  FAKE_MIND_CAPTURES();
  return take(driver().pinned_memory, memory, bytes);
}
CUresult cuMemFreeHost(void* memory) {
  FAKE_IN_CONTEXT(cuMemFreeHost);
  FAKE_MIND_CAPTURES();
  return give(driver().pinned_memory, memory);
}
CUresult cuMemHostRegister(void* memory, std::size_t, unsigned) {
  FAKE_IN_CONTEXT(cuMemHostRegister);
  FAKE_MIND_CAPTURES();
  return driver().registered.insert(memory).second ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
CUresult cuMemHostUnregister(void* memory) {
  FAKE_IN_CONTEXT(cuMemHostUnregister);
  FAKE_MIND_CAPTURES();
  return driver().registered.erase(memory) != 0 ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
// With the mutex held.
static CUresult attribute_of(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  const auto& all = driver().device_memory;
  auto at = all.upper_bound(reinterpret_cast<void*>(pointer));
  if (at == all.begin()) return CUDA_ERROR_INVALID_VALUE;
  --at;
  if (pointer - reinterpret_cast<CUdeviceptr>(*at) >= malloc_usable_size(*at)) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:  // stream-ordered memory has no context
      *static_cast<CUcontext*>(data) = knob("stream_ordered", 0) != 0 ? nullptr : &driver().primary[0];
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = knob("host_pointers", 0) != 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = static_cast<unsigned>(knob("managed", 0));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  FAKE_BEGIN(cuPointerGetAttribute);
  return attribute_of(data, attribute, pointer);
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  FAKE_BEGIN(cuPointerGetAttributes);
  for (unsigned i = 0; i < count; ++i) {
    const bool is_context = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT;
    if (attribute_of(data[i], attributes[i], pointer) != CUDA_SUCCESS)
      std::memset(data[i], 0, is_context ? sizeof(CUcontext) : sizeof(unsigned));
  }
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  FAKE_IN_CONTEXT(cuMemGetInfo);
  *free = std::size_t{1} << 30;
  *total = std::size_t{2} << 30;
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, std::size_t bytes, CUstream stream) {
  FAKE_IN_CONTEXT(cuMemcpyAsync);
  FAKE_CHECK(stream);
  std::memmove(reinterpret_cast<void*>(dst), reinterpret_cast<const void*>(src), bytes);
  return CUDA_SUCCESS;
}
#if CUDA_VERSION >= 13000
CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, std::size_t* sizes, std::size_t count,
                            CUmemcpyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                            CUstream stream) {
  FAKE_IN_CONTEXT(cuMemcpyBatchAsync);
  FAKE_CHECK(stream);
  const bool is_valid = count > 0 && attribute_count == 1 && firsts[0] == 0 &&
                        attributes->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && stream != nullptr &&
                        stream != CU_STREAM_LEGACY && std::find(sizes, sizes + count, 0u) == sizes + count;
  if (!is_valid) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = count; i-- > 0;)
    std::memmove(reinterpret_cast<void*>(to[i]), reinterpret_cast<const void*>(from[i]), sizes[i]);
  return CUDA_SUCCESS;
}
#endif
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, std::size_t bytes, CUstream stream) {
  FAKE_IN_CONTEXT(cuMemsetD8Async);
  FAKE_CHECK(stream);
  std::memset(reinterpret_cast<void*>(dst), value, bytes);
  return CUDA_SUCCESS;
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  FAKE_IN_CONTEXT(cuLaunchHostFunc);
  FAKE_CHECK(stream);
  in_host_function = true;
  function(data);
  in_host_function = false;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) {
  FAKE_IN_CONTEXT(cuStreamCreateWithPriority);
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;  // all streams of damacy are private
  *stream = new CUstream_st{stack.back()};
  driver().streams.insert(*stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  FAKE_IN_CONTEXT(cuStreamDestroy);
  if (is_special(stream) || driver().streams.erase(stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  FAKE_IN_CONTEXT(cuStreamWaitEvent);
  FAKE_CHECK(stream);
  FAKE_CHECK(event);
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  FAKE_IN_CONTEXT(cuStreamIsCapturing);
  FAKE_CHECK(stream);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  const std::int64_t capturing = knob("capturing", 0);
  if (is_special(stream)) return capturing == 2 ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
  if (capturing != 0) *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) {
  FAKE_IN_CONTEXT(cuStreamQuery);
  FAKE_MIND_CAPTURES();
  FAKE_CHECK(stream);
  return knob("idle", 0) != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  FAKE_IN_CONTEXT(cuEventCreate);
  *event = new CUevent_st{stack.back(), (flags & CU_EVENT_DISABLE_TIMING) == 0, 0, {}};
  driver().events.insert(*event);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  FAKE_IN_CONTEXT(cuEventDestroy);
  FAKE_CHECK(event);
  driver().events.erase(event);
  delete event;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  FAKE_IN_CONTEXT(cuEventRecord);
  FAKE_CHECK(stream);
  FAKE_CHECK(event);
  if (event->context != stack.back()) return CUDA_ERROR_INVALID_HANDLE;
  event->at = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) {
  FAKE_IN_CONTEXT(cuEventQuery);
  FAKE_MIND_CAPTURES();
  FAKE_CHECK(event);
  return event->queries++ < knob("queries", 0) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
#undef cuEventElapsedTime  // newer headers define it as the version of CUDA 12.8
CUresult cuEventElapsedTime(float* ms, CUevent begin, CUevent end) {
  FAKE_IN_CONTEXT(cuEventElapsedTime);
  FAKE_CHECK(begin);
  FAKE_CHECK(end);
  if (!begin->is_timed || !end->is_timed) return CUDA_ERROR_INVALID_HANDLE;
  *ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return CUDA_SUCCESS;
}
#ifndef FAKE_OLD_CUDA
CUresult cuEventElapsedTime_v2(float* ms, CUevent begin, CUevent end) {
  return cuEventElapsedTime(ms, begin, end);
}
#endif

}  // extern "C"

#pragma GCC visibility pop
