// Stream-ordered allocation: memory is allocated and freed in the order of a device's work, so that freeing waits for
// nothing. Knows events; not what a buffer is for. The contract: tests/conformance/ordered_alloc_suite.h.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/device/fenced_memory.h"

namespace damacy {

// Safe for several threads.
class OrderedAlloc {
 public:
  virtual ~OrderedAlloc() = default;
  // Aligned to 256 bytes at least; contents are not defined. bytes > 0. Streams wait for ready() before they use the
  // memory. Throws Error(oom).
  virtual FencedMemory take(std::size_t bytes) = 0;
  // Frees the memory after the events `after`, for which streams must be able to wait. The caller does not wait.
  virtual void give(std::byte* memory, std::size_t bytes, std::span<const Event> after) noexcept = 0;
};

// Owns one allocation.
class OrderedBuffer {
 public:
  OrderedBuffer() = default;
  OrderedBuffer(std::shared_ptr<OrderedAlloc> alloc, std::size_t bytes)
      : alloc_(std::move(alloc)), taken_(alloc_->take(bytes)) {}
  OrderedBuffer(OrderedBuffer&& other) noexcept { swap(other); }
  OrderedBuffer& operator=(OrderedBuffer other) noexcept {
    swap(other);
    return *this;
  }
  ~OrderedBuffer() {
    if (data() != nullptr) alloc_->give(data(), bytes().size(), after_);
  }
  std::byte* data() const noexcept { return bytes().data(); }
  std::span<std::byte> bytes() const noexcept { return taken_.bytes(); }
  const Event& ready() const noexcept { return taken_.ready(); }
  // Sets the last use of the memory, after which it may be freed.
  void free_after(std::vector<Event> uses) noexcept { after_ = std::move(uses); }
  // Leaks the memory, because it may still be in use.
  void forget() noexcept { taken_ = {}; }

 private:
  void swap(OrderedBuffer& other) noexcept {
    std::swap(alloc_, other.alloc_);
    std::swap(taken_, other.taken_);
    std::swap(after_, other.after_);
  }
  std::shared_ptr<OrderedAlloc> alloc_;
  FencedMemory taken_;
  std::vector<Event> after_;
};

}  // namespace damacy
