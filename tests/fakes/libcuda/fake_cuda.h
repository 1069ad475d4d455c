// The fake driver as a test holds it: opened by path, as the real one is, and reset. Knows its controls' names.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

#include "damacy/device/cuda/driver_api.h"
#include "fakes/fake_paths.h"
#include "fakes/libcuda/fake_libcuda.h"

namespace damacy {

class FakeCuda {
 public:
  explicit FakeCuda(const char* path = kFakeCuda) : path_(path), library_(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    control<decltype(fake_cuda_reset)>("fake_cuda_reset")();
  }

  cuda::OpenedDriver open() const { return cuda::open_driver(path_); }
  std::shared_ptr<cuda::DriverApi> api() const {
    auto opened = open();
    if (opened.api == nullptr) throw std::runtime_error(opened.probe.why);
    return opened.api;
  }

  void fail(const std::string& call, std::uint64_t nth, CUresult code, bool for_ever) const {
    control<decltype(fake_cuda_fail)>("fake_cuda_fail")(call.c_str(), nth, code, for_ever);
  }
  void heal() const { fail("", 0, CUDA_SUCCESS, false); }
  std::string struck() const { return control<decltype(fake_cuda_struck)>("fake_cuda_struck")(); }
  std::uint64_t calls(const std::string& name = "") const {
    return control<decltype(fake_cuda_calls)>("fake_cuda_calls")(name.c_str());
  }
  void set(const std::string& what, std::int64_t value) const {
    control<decltype(fake_cuda_set)>("fake_cuda_set")(what.c_str(), value);
  }
  std::int64_t live(const std::string& what) const {
    return control<decltype(fake_cuda_live)>("fake_cuda_live")(what.c_str());
  }
  std::int64_t live() const {
    return live("device_memory") + live("pinned_memory") + live("streams") + live("events") + live("retains");
  }
  CUcontext make_context(int device) const {
    return control<decltype(fake_cuda_make_context)>("fake_cuda_make_context")(device);
  }
  void destroy_context(CUcontext context) const {
    control<decltype(fake_cuda_destroy_context)>("fake_cuda_destroy_context")(context);
  }
  std::int64_t stack_depth() const { return control<decltype(fake_cuda_stack_depth)>("fake_cuda_stack_depth")(); }

 private:
  template <class Function>
  Function* control(const char* name) const {
    auto* found = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (found == nullptr) throw std::runtime_error(name);
    return found;
  }
  const char* path_;
  void* library_;
};

}  // namespace damacy
