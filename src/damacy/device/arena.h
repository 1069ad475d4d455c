// One buffer of fixed size, lent in pieces: first fit, so that the same hot addresses come back, and first come first
// served, so that a large piece is not passed over for ever. Whoever holds a piece must not wait for another of this
// arena.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

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

  // Waits its turn, and until no more than `most` bytes will be lent, or this piece alone. Throws Error(oom, "buffers")
  // when `bytes` exceed the arena, Error(shutdown) when stopped.
  Piece take(std::size_t bytes, std::stop_token stop, std::size_t most = ~std::size_t{0});

  std::size_t size() const noexcept { return buffer_.size(); }
  std::size_t peak() const noexcept;  // highest address ever lent: what can be resident

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  void give(std::span<std::byte> bytes) noexcept;
  std::byte* fit(std::size_t bytes);

  HostBuffer buffer_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Range> free_;  // sorted, never touching
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;
  std::size_t peak_ = 0;
  std::size_t lent_ = 0;
};

}  // namespace damacy
