// One buffer of fixed size, lent in pieces. First fit, so that the same cached addresses are reused. First come, first
// served, so that a large request does not starve. A thread that holds a piece must not wait for another piece of the
// same arena. A piece that may never be returned is `stranded`: no wait relies on it, and a wait that only stranded
// pieces could end fails at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/device/device.h"

namespace damacy {

class Arena {
 public:
  static constexpr std::size_t kPieceAlignment = 4096;
  Arena(std::shared_ptr<Alloc> alloc, std::size_t bytes);

  class Piece {  // gives back what it holds
   public:
    Piece() = default;
    Piece(Piece&& other) noexcept { swap(other); }
    Piece& operator=(Piece other) noexcept {
      swap(other);
      return *this;
    }
    ~Piece() {
      if (arena_ != nullptr) arena_->give(bytes_);
    }
    std::span<std::byte> bytes() const noexcept { return bytes_; }
    // Marks the piece as held by an operation that does not respond. Errors name `object` of `store`. Idempotent; any
    // thread.
    void strand(std::string_view object, std::string_view store) const noexcept {
      if (arena_ != nullptr) arena_->strand(bytes_, object, store);
    }

   private:
    friend class Arena;
    Piece(Arena* arena, std::span<std::byte> bytes) noexcept : arena_(arena), bytes_(bytes) {}
    void swap(Piece& other) noexcept {
      std::swap(arena_, other.arena_);
      std::swap(bytes_, other.bytes_);
    }
    Arena* arena_ = nullptr;
    std::span<std::byte> bytes_;
  };

  // Waits for its turn and until at most `most` bytes are lent with this piece (not counting stranded ones), or this
  // piece alone. Throws Error(oom, "buffers") if `bytes` exceed the arena, Error(shutdown) if stopped, and Error(io,
  // "deadline") if stranded pieces leave no room for it.
  Piece take(std::size_t bytes, std::stop_token stop, std::size_t most = ~std::size_t{0});
  // Does not wait. Returns an empty piece if no free range is large enough, or if a take() is waiting.
  Piece try_take(std::size_t bytes);
  // The largest piece, in bytes, that take() can return without waiting for stranded pieces.
  std::size_t lendable() const;
  std::size_t stranded() const;  // bytes

  std::size_t size() const noexcept { return buffer_.size(); }
  std::size_t peak() const noexcept;  // highest address ever lent: what can be resident

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  // A waiting take(), in a queue.
  struct Waiter {
    Waiter* next = nullptr;
  };
  void give(std::span<std::byte> bytes) noexcept;
  void strand(std::span<std::byte> bytes, std::string_view object, std::string_view store) noexcept;
  std::byte* fit(std::size_t bytes) DAMACY_REQUIRES(mutex_);
  void leave(const Waiter& waiter) noexcept DAMACY_REQUIRES(mutex_);
  std::size_t largest_without_stranded() const noexcept DAMACY_REQUIRES(mutex_);
  [[noreturn]] void throw_stranded(std::size_t bytes) const DAMACY_REQUIRES(mutex_);
  Range range_of(std::span<std::byte> bytes) const noexcept;

  HostBuffer buffer_;
  mutable Mutex mutex_;
  StoppableCondition changed_;
  std::vector<Range> free_ DAMACY_GUARDED_BY(mutex_);      // sorted, never touching
  std::vector<Range> stranded_ DAMACY_GUARDED_BY(mutex_);  // sorted
  std::size_t stranded_bytes_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::string holder_ DAMACY_GUARDED_BY(mutex_);       // of the last that was stranded
  Waiter* first_ DAMACY_GUARDED_BY(mutex_) = nullptr;  // whose turn it is
  Waiter** last_ DAMACY_GUARDED_BY(mutex_) = &first_;  // where the next one joins
  std::size_t peak_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::size_t lent_ DAMACY_GUARDED_BY(mutex_) = 0;  // without the stranded ones
};

}  // namespace damacy
