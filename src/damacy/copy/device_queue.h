// Arrays in a device's memory, and work on them in order: up, down, and strided copies between. One stream a device;
// callers of all threads take turns. Knows bytes and strides; not elements' meaning, not Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "damacy/copy/placement.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/device/fenced_memory.h"

namespace damacy {

class DeviceQueue {
 public:
  DeviceQueue(std::shared_ptr<Device> device, std::unique_ptr<Copier> copier);

  Device& device() noexcept { return *device_; }
  Copier& copier() noexcept { return *copier_; }
  HostBuffer allocate(std::size_t bytes) { return {device_->device_memory(), bytes}; }

  // Both are complete on return.
  void upload(std::span<std::byte> dst, std::span<const std::byte> src);
  void download(std::span<std::byte> dst, std::span<const std::byte> src) { upload(dst, src); }
  // Enqueues; waits between the parts of a copy of very many axes. `copy` counts from `src` and `dst`; `src` is not
  // shorter than it reads.
  void copy(BlockCopy copy, std::span<const std::byte> src, std::uint64_t dst);

  // Work queued there so far comes first, unless a graph is being captured there (false); work queued there from now on
  // comes after ours.
  bool wait_for(std::uint64_t stream);
  void make_wait(std::uint64_t stream);
  void wait_for(const Event& event);
  Event record();
  std::uint64_t native_handle();

 private:
  std::shared_ptr<Device> device_;
  std::unique_ptr<Copier> copier_;
  Mutex mutex_;
  const std::unique_ptr<Stream> stream_ DAMACY_PT_GUARDED_BY(mutex_);
  const HostBuffer pinned_, on_device_;
  FencedMemory pinned_image_ DAMACY_GUARDED_BY(mutex_);  // used again by the host; the device's by the stream alone
};

}  // namespace damacy
