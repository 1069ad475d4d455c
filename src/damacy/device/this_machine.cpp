#include "damacy/device/this_machine.h"

#include <cstdlib>

#include "damacy/device/cuda_device.h"
#include "damacy/device/gpu_memory.h"

namespace damacy {
namespace {

std::optional<std::uint64_t> free_bytes(const DeviceChoice& choice) {
  const auto nvml = open_nvml();
  if (nvml == nullptr) return std::nullopt;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const auto ordinal = static_cast<unsigned>(choice.kind == DeviceChoice::Kind::index ? choice.index : 0);
  return free_gpu_memory(*nvml, ordinal, visible == nullptr ? std::nullopt : std::optional<std::string>(visible));
}

}  // namespace

Machine this_machine(const DeviceChoice& choice) {
  Machine machine = read_machine();
  machine.gpu = choice.kind != DeviceChoice::Kind::cpu && probe_cuda().state == CudaState::usable;
  if (machine.gpu) machine.gpu_bytes = free_bytes(choice);
  return machine;
}

}  // namespace damacy
