// The allocator of buffers: an interface, so that tests can count buffers and make allocations fail. Knows sizes and
// alignment; not the use of a buffer. The contract: tests/conformance/alloc_suite.h.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace damacy {

class Alloc {
 public:
  static constexpr std::size_t kAlignment = 4096;
  virtual ~Alloc() = default;
  // bytes > 0. Any thread. Aligned to kAlignment, memory of a GPU to 256. Contents are undefined. Throws Error(oom).
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void give(std::byte* memory, std::size_t bytes) noexcept = 0;
};

// Allocates anonymous pages, huge ones if the system has them. A page is not resident before its first use.
class PageAlloc final : public Alloc {
 public:
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;
};

// Owns one allocation.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(std::shared_ptr<Alloc> alloc, std::size_t bytes)
      : alloc_(std::move(alloc)), data_(alloc_->take(bytes)), bytes_(bytes) {}
  HostBuffer(HostBuffer&& other) noexcept { swap(other); }
  HostBuffer& operator=(HostBuffer other) noexcept {
    swap(other);
    return *this;
  }
  ~HostBuffer() {
    if (data_ != nullptr) alloc_->give(data_, bytes_);
  }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }

 private:
  void swap(HostBuffer& other) noexcept {
    std::swap(alloc_, other.alloc_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  std::shared_ptr<Alloc> alloc_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace damacy
