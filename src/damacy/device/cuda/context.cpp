// Checking, latching, pushing and popping.
#include "damacy/device/cuda/context.h"

#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"

namespace damacy::cuda {
namespace {

constexpr std::size_t kMostSpareEvents = 4096;

thread_local const Use* innermost = nullptr;  // of those that pushed

}  // namespace

bool is_sticky(CUresult result) noexcept {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return result == static_cast<CUresult>(226) ||  // contained; named by newer toolkits only
             result == static_cast<CUresult>(721);    // tensor memory leak, likewise
  }
}

Context::Context(std::shared_ptr<DriverApi> api, CUcontext handle, int ordinal, bool retained) noexcept
    : api_(std::move(api)), handle_(handle), ordinal_(ordinal), retained_(retained) {}

Context::~Context() {
  if (!retained_ || is_silent()) return;  // a context of another owner may be gone, and its events with it
  quietly(*this, [this](const Calls& calls) DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    for (const CUevent event : spare_events_) note(calls.cuEventDestroy(event), "cuEventDestroy");
  });
  CUdevice device = 0;
  if (calls().cuDeviceGet(&device, ordinal_) == CUDA_SUCCESS)
    note(calls().cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
}

bool Context::is_silent() const noexcept {
  return health().is_lost() || damacy::fork_epoch() != api_->fork_epoch;
}

void Context::check_usable() const {
  if (damacy::fork_epoch() != api_->fork_epoch)
    throw Error(Status::shutdown, "CUDA was in use before this process was forked", "forked").in_stage("forked");
  if (health().is_lost()) throw health().error();
}

Error Context::error(CUresult result, const char* call) const {
  const bool sticky = is_sticky(result);
  std::string message = formatted("{} on device {}: {}", call, ordinal_, described(calls(), result));
  if (sticky) message += "; the context is lost: restart the process to use this device again";
  return Error(Status::cuda, std::move(message), "cuda").with_sticky(sticky).with_errno(static_cast<int>(result));
}

void Context::check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return;
  const Error failed = error(result, call);
  if (!failed.sticky()) throw failed;
  health().lose(failed);
  throw health().error();  // another thread may have been first
}

void Context::note(CUresult result, const char* call) const noexcept {
  if (!is_sticky(result)) return;
  try {
    health().lose(error(result, call));
  } catch (...) {
    health().lose(Error(Status::cuda, "", "cuda"));
  }
}

CUevent Context::take_event() const {
  {
    const Lock lock(mutex_);
    spare_events_.reserve(kMostSpareEvents);
    if (!spare_events_.empty()) {
      const CUevent event = spare_events_.back();
      spare_events_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  check(calls().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  return event;
}

void Context::give_event(CUevent event) const noexcept {
  if (is_silent()) return;
  {
    const Lock lock(mutex_);
    if (spare_events_.size() < spare_events_.capacity()) return spare_events_.push_back(event);  // takes no memory
  }
  quietly(*this, [&](const Calls& calls) { note(calls.cuEventDestroy(event), "cuEventDestroy"); });
}

Use::Use(const Context& context) : context_(context) {
  context.check_usable();
  if (is_within_another()) return;
  context.check(context.calls().cuCtxPushCurrent(context.handle()), "cuCtxPushCurrent");
  begin();
}

Use::Use(const Context& context, Quietly) noexcept : context_(context) {
  if (is_within_another()) return;
  const CUresult pushed = context.calls().cuCtxPushCurrent(context.handle());
  context.note(pushed, "cuCtxPushCurrent");
  if (pushed == CUDA_SUCCESS) begin();
}

bool Use::is_within_another() noexcept {
  within_ = innermost != nullptr && innermost->context_.handle() == context_.handle();
  return within_;
}

void Use::begin() noexcept {
  pushed_ = true;
  before_ = innermost;
  innermost = this;
  context_.calls().cuThreadExchangeStreamCaptureMode(&mode_);
}

// Also on a lost device: the caller's own context comes back.
Use::~Use() {
  if (!pushed_) return;
  innermost = before_;
  context_.calls().cuThreadExchangeStreamCaptureMode(&mode_);
  CUcontext ours = nullptr;
  context_.calls().cuCtxPopCurrent(&ours);
}

}  // namespace damacy::cuda
