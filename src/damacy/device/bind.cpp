// The rules, first to last.
#include "damacy/device/device.h"

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"

namespace damacy {
namespace {

BoundDevice bound(std::shared_ptr<Device> device) {
  return {.device = std::move(device), .why_host = {}};
}

BoundDevice bind_automatic(const std::function<bool()>& make_current) {
  const CudaProbe probe = probe_cuda();
  if (probe.state != CudaState::usable)
    return {.device = make_host_device(), .why_host = probe.why, .is_unexpected = probe.has_driver};
  if (auto device = bind_current_context()) return bound(std::move(device));
  if (make_current && make_current())
    if (auto device = bind_current_context()) return bound(std::move(device));
  throw Error(
      Status::inval,
      "a GPU is there, but no CUDA context is current on this thread: create one through torch (import torch; "
      "torch.cuda.synchronize()), call damacy._native.cuda_init_primary() (in C++ make_primary_current()), or pass "
      "device=0 or device=\"cpu\"",
      "no-context");
}

std::shared_ptr<Device> bind_any_cuda() {
  const CudaProbe probe = probe_cuda();
  if (probe.state != CudaState::usable)
    throw Error(Status::inval, formatted("no CUDA device: {}", probe.why), "no-device");
  if (auto device = bind_current_context()) return device;
  return bind_primary_context(0);
}

}  // namespace

BoundDevice bind_device(const DeviceChoice& choice, const std::function<bool()>& make_current) {
  switch (choice.kind) {
    case DeviceChoice::Kind::cpu:
      return bound(make_host_device());
    case DeviceChoice::Kind::cuda:
      return bound(bind_any_cuda());
    case DeviceChoice::Kind::index:
      return bound(bind_primary_context(choice.index));
    case DeviceChoice::Kind::automatic:
      break;
  }
  return bind_automatic(make_current);
}

}  // namespace damacy
