// Allocates and frees. Memory of a lost device is never freed, because the GPU may still write to it.
#include "damacy/device/cuda/memory.h"

#include <algorithm>
#include <vector>

#include <sys/mman.h>

#include "damacy/core/cores.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/on_failure.h"
#include "damacy/core/thread.h"

namespace damacy::cuda {
namespace {

constexpr std::size_t kPage = 4096;

[[noreturn]] void out_of_device_memory(const Context& context, std::size_t bytes) {
  throw Error(Status::oom, formatted("no memory for {} bytes on device {}", bytes, context.ordinal()), "gpu-memory");
}

[[noreturn]] void out_of_pinned(std::size_t bytes) {
  throw Error(Status::oom, formatted("no page-locked memory for a buffer of {} bytes", bytes), "memory");
}

using Touch = void (*)(std::span<std::byte>);

void clear(std::span<std::byte> pages) {
  for (std::size_t i = 0; i < pages.size(); i += kPage) *const_cast<volatile std::byte*>(&pages[i]) = std::byte{0};
}

// Pages of shared memory are resident when they were read.
void look_at(std::span<std::byte> pages) {
  for (std::size_t i = 0; i < pages.size(); i += kPage)
    static_cast<void>(*const_cast<const volatile std::byte*>(&pages[i]));
}

// Makes all pages resident, on several threads. Continues with fewer threads if one cannot be started.
void touch_in_parallel(std::span<std::byte> pages, Touch touch) {
  constexpr std::size_t kShare = std::size_t{32} << 20;
  const std::size_t most = std::min<std::size_t>(8, usable_cores());
  const std::size_t threads = std::clamp<std::size_t>(pages.size() / kShare, 1, most);
  const std::size_t share = (pages.size() / threads + kPage - 1) / kPage * kPage;
  std::vector<Thread> helpers;
  std::size_t begin = 0;
  try {
    for (; begin + share < pages.size(); begin += share)
      helpers.push_back(Thread("damacy-pin", [touch, part = pages.subspan(begin, share)] { touch(part); }));
  } catch (const std::exception&) {
  }
  touch(pages.subspan(begin));
}

}  // namespace

std::byte* DeviceMemory::take(std::size_t bytes) {
  const Use use(*context_);
  CUdeviceptr memory = 0;
  const CUresult result = context_->calls().cuMemAlloc(&memory, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) out_of_device_memory(*context_, bytes);
  context_->check(result, "cuMemAlloc");
  return reinterpret_cast<std::byte*>(memory);
}

void DeviceMemory::give(std::byte* memory, std::size_t) noexcept {
  quietly(*context_, [&](const Calls& calls) {
    context_->note(calls.cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), "cuMemFree");
  });
}

FencedMemory OrderedDeviceMemory::take(std::size_t bytes) {
  const Use use(*context_);
  const Lock lock(mutex_);
  CUdeviceptr address = 0;
  const CUresult result = context_->calls().cuMemAllocAsync(&address, bytes, handle());
  if (result == CUDA_ERROR_OUT_OF_MEMORY) out_of_device_memory(*context_, bytes);
  context_->check(result, "cuMemAllocAsync");
  FencedMemory taken({reinterpret_cast<std::byte*>(address), bytes});
  const OnFailure undo([&] { context_->note(context_->calls().cuMemFreeAsync(address, handle()), "cuMemFreeAsync"); });
  taken.reusable_after(stream_.record(/*timed=*/false));
  return taken;
}

// If the stream cannot wait, this thread waits. If that fails too, the memory is leaked.
void OrderedDeviceMemory::give(std::byte* memory, std::size_t, std::span<const Event> after) noexcept {
  quietly(*context_, [&](const Calls& calls) {
    const Lock lock(mutex_);
    for (const Event& use : after)
      if (!precedes(use)) return;
    context_->note(calls.cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(memory), handle()), "cuMemFreeAsync");
  });
}

bool OrderedDeviceMemory::precedes(const Event& use) noexcept {
  try {
    stream_.wait(use);
    return true;
  } catch (const std::exception&) {
  }
  try {
    return use.wait();
  } catch (const std::exception&) {
    return false;
  }
}

std::byte* PinnedMemory::take(std::size_t bytes) {
  const Use use(*context_);
  std::byte* memory = pages_.take(bytes);
  ::madvise(memory, bytes, MADV_DONTFORK);  // a child has no use for it, and must not make the kernel copy it
  touch_in_parallel({memory, bytes}, clear);
  const CUresult result = context_->calls().cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS) return memory;
  pages_.give(memory, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) out_of_pinned(bytes);
  if (result != CUDA_ERROR_NOT_SUPPORTED && result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_NOT_PERMITTED)
    context_->check(result, "cuMemHostRegister");
  return take_from_driver(bytes);
}

std::byte* PinnedMemory::take_from_driver(std::size_t bytes) {
  void* memory = nullptr;
  const CUresult result = context_->calls().cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) out_of_pinned(bytes);
  context_->check(result, "cuMemHostAlloc");
  const Lock lock(mutex_);
  return *from_driver_.insert(static_cast<std::byte*>(memory)).first;
}

void PinnedMemory::give(std::byte* memory, std::size_t bytes) noexcept {
  quietly(*context_, [&](const Calls& calls) {
    const Lock lock(mutex_);
    if (from_driver_.erase(memory) != 0) return context_->note(calls.cuMemFreeHost(memory), "cuMemFreeHost");
    const CUresult result = calls.cuMemHostUnregister(memory);
    context_->note(result, "cuMemHostUnregister");
    if (result == CUDA_SUCCESS) pages_.give(memory, bytes);
  });
}

PageLock::PageLock(std::shared_ptr<const Context> context, std::span<std::byte> memory)
    : context_(std::move(context)), memory_(memory) {
  const Use use(*context_);
  touch_in_parallel(memory_, look_at);
  const CUresult result =
      context_->calls().cuMemHostRegister(memory_.data(), memory_.size(), CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) out_of_pinned(memory_.size());
  context_->check(result, "cuMemHostRegister");
}

PageLock::~PageLock() {
  quietly(*context_, [&](const Calls& calls) {
    context_->note(calls.cuMemHostUnregister(memory_.data()), "cuMemHostUnregister");
  });
}

}  // namespace damacy::cuda
