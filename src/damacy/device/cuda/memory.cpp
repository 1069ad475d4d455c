// Taking and giving. What belongs to a lost device is never given back.
#include "damacy/device/cuda/memory.h"

#include "damacy/core/text.h"

namespace damacy::cuda {

std::byte* DeviceMemory::take(std::size_t bytes) {
  const Use use(*context_);
  CUdeviceptr memory = 0;
  const CUresult result = context_->calls().cuMemAlloc(&memory, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    throw Error(Status::oom, text("no memory for ", bytes, " bytes on device ", context_->ordinal()), "gpu-memory");
  context_->check(result, "cuMemAlloc");
  return reinterpret_cast<std::byte*>(memory);
}

void DeviceMemory::give(std::byte* memory, std::size_t) noexcept {
  quietly(*context_, [&](const Calls& calls) {
    context_->note(calls.cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), "cuMemFree");
  });
}

std::byte* PinnedMemory::take(std::size_t bytes) {
  const Use use(*context_);
  void* memory = nullptr;
  const CUresult result = context_->calls().cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    throw Error(Status::oom, text("no page-locked memory for a buffer of ", bytes, " bytes"), "memory");
  context_->check(result, "cuMemHostAlloc");
  return static_cast<std::byte*>(memory);
}

void PinnedMemory::give(std::byte* memory, std::size_t) noexcept {
  quietly(*context_, [&](const Calls& calls) { context_->note(calls.cuMemFreeHost(memory), "cuMemFreeHost"); });
}

}  // namespace damacy::cuda
