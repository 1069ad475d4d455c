// Where the bytes of a request lie: host memory, or memory of a device with the order of its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "damacy/device/device.h"

namespace damacy {

// Memory of one device that one request touches.
struct OnDevice {
  std::shared_ptr<Device> device;
  Event before;  // copies from and to the memory wait for it
};

// Consecutive bytes of memory. `device` null: the host's.
struct FileMemory {
  std::byte* data = nullptr;
  std::uint64_t size = 0;
  std::shared_ptr<OnDevice> device;
};

}  // namespace damacy
