// One CUDA context: every call is checked, the caller's current context is unchanged, and no call is made after an
// error that ends the context.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
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

  // Whether calls are no longer allowed: the device is lost, or this is a forked child.
  bool is_silent() const noexcept;
  void check_usable() const;  // throws why not

  // Throws Error(cuda) unless `result` is success. A sticky error marks the device as lost. `call` is the function's
  // name.
  void check(CUresult result, const char* call) const;
  // The same for destructors.
  void note(CUresult result, const char* call) const noexcept;

  // Events without times that are used again: to create and destroy one costs more than to record it. The context is
  // current.
  CUevent take_event() const;
  void give_event(CUevent event) const noexcept;

 private:
  Error error(CUresult result, const char* call) const;
  DeviceHealth& health() const noexcept { return *api_->health[static_cast<std::size_t>(ordinal_)]; }

  const std::shared_ptr<DriverApi> api_;
  const CUcontext handle_;
  const int ordinal_;
  const bool retained_;
  mutable Mutex mutex_;
  mutable std::vector<CUevent> spare_events_ DAMACY_GUARDED_BY(mutex_);
};

// Makes the context current on this thread for its lifetime. Calls in its scope do not break a graph that is being
// captured. Nesting with the same context costs nothing. Only code of the library runs in its scope.
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

// Calls a function that frees a resource, unless the device is lost.
template <class Release>
void quietly(const Context& context, Release release) noexcept {
  if (context.is_silent()) return;
  const Use use(context, Use::Quietly{});
  if (use.worked()) release(context.calls());
}

}  // namespace damacy::cuda
