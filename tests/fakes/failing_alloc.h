// Buffers that are counted, and of which the n-th cannot be had. Knows an allocator behind it; not what buffers are
// for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/device/device.h"

namespace damacy {

// Fails the n-th take (from 1), once or from then on; 0 never fails.
class FailingAlloc final : public Alloc {
 public:
  FailingAlloc(std::shared_ptr<Alloc> inner, std::uint64_t fail_at, bool for_ever)
      : inner_(std::move(inner)), fail_at_(fail_at), for_ever_(for_ever) {}

  std::byte* take(std::size_t bytes) override {
    const std::uint64_t n = ++takes_;
    if (fail_at_ != 0 && (for_ever_ ? n >= fail_at_ : n == fail_at_))
      throw Error(Status::oom, formatted("no memory for a buffer of {} bytes (injected)", bytes), "memory");
    return inner_->take(bytes);
  }
  void give(std::byte* memory, std::size_t bytes) noexcept override { inner_->give(memory, bytes); }
  std::uint64_t takes() const noexcept { return takes_; }

 private:
  std::shared_ptr<Alloc> inner_;
  std::uint64_t fail_at_;
  bool for_ever_;
  std::atomic<std::uint64_t> takes_{0};
};

}  // namespace damacy
