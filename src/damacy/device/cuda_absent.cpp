// The functions of a build without CUDA.
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/trace.h"

namespace damacy {

std::string cuda_build() {
  return {};
}

CudaProbe probe_cuda() {
  return {.state = CudaState::built_without, .why = "built without CUDA", .has_driver = false};
}

std::shared_ptr<Device> bind_current_context() {
  return nullptr;
}

std::shared_ptr<Device> bind_primary_context(int index) {
  throw Error(Status::inval, formatted("no CUDA device {}: built without CUDA", index), "no-device");
}

std::shared_ptr<Device> bind_pointer(std::uint64_t) {
  return nullptr;
}

bool make_primary_current(int) {
  return false;
}

TraceRange::TraceRange(const char*) noexcept {}
TraceRange::~TraceRange() {}

}  // namespace damacy
