// Memory that streams use, with the event after which it may be used again. Knows no owner and no stream: who reuses
// the memory waits, on the host or in a stream.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "damacy/device/device.h"

namespace damacy {

class FencedMemory {
 public:
  FencedMemory() = default;
  explicit FencedMemory(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  // Its last use. Wait for this before the first access.
  const Event& ready() const noexcept { return last_use_; }
  // Call this after the last use. Without a call ready() stays the same.
  void reusable_after(Event last_use) noexcept { last_use_ = std::move(last_use); }

 private:
  std::span<std::byte> bytes_;
  Event last_use_;
};

}  // namespace damacy
