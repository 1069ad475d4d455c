// One CUDA context as we use it: every call checked, the caller's current context untouched, and silence after an error
// that ends the context.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/device/cuda/device_health.h"
#include "damacy/device/cuda/driver_api.h"

namespace damacy::cuda {

// Whether every later call in the context fails after this one.
bool is_sticky(CUresult result) noexcept;

class Context {
 public:
  // `retained`: a primary context that is released with this.
  Context(std::shared_ptr<DriverApi> api, CUcontext handle, int ordinal, bool retained) noexcept;
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Calls& calls() const noexcept { return api_->calls; }
  CUcontext handle() const noexcept { return handle_; }
  int ordinal() const noexcept { return ordinal_; }

  // No call may be made any more: the device is lost, or this is a forked child.
  bool is_silent() const noexcept;
  void check_usable() const;  // throws why not

  // Throws Error(cuda) unless `result` is a success; a sticky one loses the device. `call` is the function's name.
  void check(CUresult result, const char* call) const;
  // The same for destructors.
  void note(CUresult result, const char* call) const noexcept;

 private:
  Error error(CUresult result, const char* call) const;
  DeviceHealth& health() const noexcept { return *api_->health[static_cast<std::size_t>(ordinal_)]; }

  const std::shared_ptr<DriverApi> api_;
  const CUcontext handle_;
  const int ordinal_;
  const bool retained_;
};

// While this lives the context is current on this thread, and no call breaks a graph that somebody captures meanwhile.
// One within another of the same context costs nothing; nobody else's code runs within.
class Use {
 public:
  explicit Use(const Context& context);  // throws when it cannot be
  struct Quietly {};
  Use(const Context& context, Quietly) noexcept;  // for destructors: see worked()
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  bool worked() const noexcept { return pushed_ || within_; }

 private:
  void begin() noexcept;
  bool is_within_another() noexcept;
  const Context& context_;
  const Use* before_ = nullptr;  // who made its context current on this thread, and is still there
  bool within_ = false;          // that one, for the same context
  bool pushed_ = false;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// Makes the calls that free something, unless the device is lost.
template <class Release>
void quietly(const Context& context, Release release) noexcept {
  if (context.is_silent()) return;
  const Use use(context, Use::Quietly{});
  if (use.worked()) release(context.calls());
}

}  // namespace damacy::cuda
