// Where buffers come from: the seam that counts every buffer, and that tests make fail.
// Knows sizes and alignment; does not know what a buffer is for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace damacy {

class Alloc {
 public:
  static constexpr std::size_t kAlignment = 4096;
  virtual ~Alloc() = default;
  // Throws Error(oom). Zeroed or untouched pages: contents are not defined. bytes > 0.
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void give(std::byte* memory, std::size_t bytes) noexcept = 0;
};

// Anonymous pages, in huge ones where the system has them; nothing is resident before it is touched.
class PageAlloc final : public Alloc {
 public:
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;
};

// Counts what passes through to another allocator.
class AccountingAlloc final : public Alloc {
 public:
  explicit AccountingAlloc(std::shared_ptr<Alloc> inner) : inner_(std::move(inner)) {}
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;

  std::uint64_t takes() const noexcept { return takes_; }
  std::uint64_t bytes_held() const noexcept { return bytes_held_; }

 private:
  std::shared_ptr<Alloc> inner_;
  std::atomic<std::uint64_t> takes_{0};
  std::atomic<std::uint64_t> bytes_held_{0};
};

// Fails the n-th take (from 1), once or from then on; 0 never fails.
class FailingAlloc final : public Alloc {
 public:
  FailingAlloc(std::shared_ptr<Alloc> inner, std::uint64_t fail_at, bool for_ever)
      : inner_(std::move(inner)), fail_at_(fail_at), for_ever_(for_ever) {}
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override { inner_->give(memory, bytes); }
  std::uint64_t takes() const noexcept { return takes_; }

 private:
  std::shared_ptr<Alloc> inner_;
  std::uint64_t fail_at_;
  bool for_ever_;
  std::atomic<std::uint64_t> takes_{0};
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
