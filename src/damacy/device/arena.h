// One buffer of fixed size, lent in pieces: first fit, so that the same hot addresses come back, and first come first
// served, so that a large piece is not passed over for ever. Whoever holds a piece must not wait for another of this
// arena. A piece that may never come back is `stranded`: no wait counts on it, and a wait that only stranded pieces
// could end fails at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/device/alloc.h"

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
    // An operation that does not respond holds it, perhaps without end: errors name `object` of `store`. Idempotent;
    // any thread.
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

  // Waits its turn, and until no more than `most` bytes will be lent, stranded ones left out, or this piece alone.
  // Throws Error(oom, "buffers") when `bytes` exceed the arena, Error(shutdown) when stopped, Error(io, "deadline")
  // when stranded pieces leave no room for it.
  Piece take(std::size_t bytes, std::stop_token stop, std::size_t most = ~std::size_t{0});
  // What a take() can get at most without waiting for stranded pieces, in bytes.
  std::size_t lendable() const;
  std::size_t stranded() const;  // bytes

  std::size_t size() const noexcept { return buffer_.size(); }
  std::size_t peak() const noexcept;  // highest address ever lent: what can be resident

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  // A take() that waits, behind others.
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
