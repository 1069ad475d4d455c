// Keeps bytes of chunks under keys, in memory of one process (ChunkCache) or of several (SharedCache): look-ups, holds
// of what is there, and room for what is not. Knows keys and sizes; not what the bytes are. Thread-safe. A tier
// outlives its holds and fillings. The contract: tests/conformance/chunk_tier_suite.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "damacy/cache/chunk_key.h"

namespace damacy {

class ChunkTier {
 public:
  struct Count {
    std::int64_t chunks = 0, bytes = 0;
    void add(std::uint64_t bytes_of_one) noexcept {
      ++chunks;
      bytes += static_cast<std::int64_t>(bytes_of_one);
    }
    friend bool operator==(const Count&, const Count&) = default;
  };
  struct Counts {
    Count hits, misses, kept, evicted;
  };

  virtual ~ChunkTier() = default;

  // An entry stays while it is held.
  class Hold {
   public:
    // Counted in `holds` or, without it, by the tier.
    Hold(std::atomic<std::uint32_t>& holds, std::span<const std::byte> bytes, std::span<const std::byte> note)
        : holds_(&holds), bytes_(bytes), note_(note) {}
    Hold(ChunkTier& tier, std::uint32_t entry, std::uint64_t version, std::span<const std::byte> bytes,
         std::span<const std::byte> note)
        : tier_(&tier), entry_(entry), version_(version), bytes_(bytes), note_(note) {}
    Hold(Hold&& other) noexcept
        : holds_(std::exchange(other.holds_, nullptr)),
          tier_(std::exchange(other.tier_, nullptr)),
          entry_(other.entry_),
          version_(other.version_),
          bytes_(other.bytes_),
          note_(other.note_) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (holds_ != nullptr) holds_->fetch_sub(1, std::memory_order_release);
      if (tier_ != nullptr) tier_->release(entry_);
    }
    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    std::span<const std::byte> note() const noexcept { return note_; }
    // Asked after the bytes were read: false if they may have been overwritten meanwhile, which only another process
    // can do that does not see this one.
    [[nodiscard]] bool is_intact() const noexcept { return tier_ == nullptr || tier_->is_intact(entry_, version_); }

   private:
    std::atomic<std::uint32_t>* holds_ = nullptr;
    ChunkTier* tier_ = nullptr;
    std::uint32_t entry_ = 0;
    std::uint64_t version_ = 0;
    std::span<const std::byte> bytes_, note_;
  };

  // Memory for a chunk that is not visible yet. Unless it is published it is given back.
  class Filling {
   public:
    Filling() = default;
    Filling(ChunkTier& tier, std::uint32_t entry, std::span<std::byte> bytes, std::span<std::byte> note)
        : tier_(&tier), entry_(entry), bytes_(bytes), note_(note) {}
    Filling(Filling&& other) noexcept
        : tier_(std::exchange(other.tier_, nullptr)), entry_(other.entry_), bytes_(other.bytes_), note_(other.note_) {}
    Filling& operator=(Filling&&) = delete;
    ~Filling() {
      if (tier_ != nullptr) tier_->discard(entry_);
    }
    explicit operator bool() const noexcept { return tier_ != nullptr; }
    std::span<std::byte> bytes() const noexcept { return bytes_; }
    std::span<std::byte> note() const noexcept { return note_; }
    // All bytes are written, and are right. They stay as long as the result lives.
    Hold publish() noexcept { return std::exchange(tier_, nullptr)->publish(entry_); }

   private:
    ChunkTier* tier_ = nullptr;
    std::uint32_t entry_ = 0;
    std::span<std::byte> bytes_, note_;
  };

  struct Found {
    std::optional<Hold> hold;
    bool may_be_kept = false;  // without a hold: reserve() will probably find room
  };
  // Bytes that a caller may keep in front of a chunk, so that it is aligned as it was where it came from.
  static constexpr std::uint64_t kMostInFront = 15;
  // A look-up: one for each distinct chunk of a batch. `bytes`: the size that the chunk has or would have. An entry of
  // another size is not the chunk.
  [[nodiscard]] virtual Found find(const ChunkKey& key, std::uint64_t bytes) = 0;

  // The look-ups of these chunks are next: brings what they read into the processor's cache, all at once. Without it,
  // each look-up waits for memory twice. Changes nothing.
  virtual void prefetch(std::span<const ChunkKey> /*keys*/) const {}

  // Memory for a chunk that was missed; empty if there is none at once, or if the chunk is there or being filled.
  [[nodiscard]] virtual Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes = 0) = 0;

  virtual Counts counts() const = 0;  // since it was made, or the last reset
  virtual void reset_counts() = 0;

 protected:
  static constexpr bool is_size_of(std::uint64_t kept, std::uint64_t chunk) noexcept {
    return kept >= chunk && kept - chunk <= kMostInFront;
  }

 private:
  virtual Hold publish(std::uint32_t entry) noexcept = 0;
  virtual void discard(std::uint32_t entry) noexcept = 0;
  virtual void release(std::uint32_t) noexcept {}
  virtual bool is_intact(std::uint32_t, std::uint64_t) const noexcept { return true; }
};

}  // namespace damacy
