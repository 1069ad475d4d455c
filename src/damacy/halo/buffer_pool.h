// Message buffers that are used again, with a limit on idle bytes. A buffer returns with the event of its last use, and
// its next user waits for that. Knows memory and events; not what a message has.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/halo/idle_buffers.h"

namespace damacy::halo {

struct MessageBuffer {
  std::shared_ptr<Device> device;  // null: host memory
  HostBuffer memory;               // none if the message is empty
  Event last_use;

  std::span<std::byte> bytes() const noexcept { return memory.bytes(); }
};

class BufferPool {
 public:
  explicit BufferPool(std::size_t most_idle_bytes) : most_idle_bytes_(most_idle_bytes) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();  // waits for the last uses of idle buffers

  // Of exactly `bytes`, with its old contents; the newest idle one, or a new one. Wait for last_use before using it.
  MessageBuffer take(std::shared_ptr<Device> device, std::size_t bytes);
  // The oldest idle buffers of the device are freed, so that no more than the limit is idle.
  void give(MessageBuffer buffer);

  std::size_t idle_bytes() const;

  // The pool of the process: DAMACY_HALO_POOL_BYTES, by default 512 MiB, for each device and for the host.
  static BufferPool& process();

 private:
  using Kind = std::pair<const Device*, std::size_t>;  // its bytes

  const std::size_t most_idle_bytes_;
  mutable Mutex mutex_;
  IdleBuffers<Kind, const Device*, MessageBuffer> idle_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy::halo
