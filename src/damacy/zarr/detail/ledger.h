// Counts the bytes of metadata in memory, whichever object holds them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace damacy {

class Ledger {
 public:
  std::uint64_t used() const noexcept { return used_; }

 private:
  friend class Charge;
  std::atomic<std::uint64_t> used_{0};
};

// Adds bytes to a ledger, and subtracts them when destroyed.
class Charge {
 public:
  Charge() = default;
  Charge(std::shared_ptr<Ledger> ledger, std::uint64_t bytes) noexcept : ledger_(std::move(ledger)), bytes_(bytes) {
    ledger_->used_ += bytes_;
  }
  Charge(Charge&& other) noexcept : ledger_(std::move(other.ledger_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  ~Charge() {
    if (ledger_) ledger_->used_ -= bytes_;
  }

 private:
  std::shared_ptr<Ledger> ledger_;
  std::uint64_t bytes_ = 0;
};

}  // namespace damacy
