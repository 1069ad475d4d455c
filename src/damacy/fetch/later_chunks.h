// Decoded chunks that accepted batches want which are not planned yet: each stays until the last of them was planned.
// Knows keys, how many batches want each, and memory up to a limit; not what the bytes are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "damacy/cache/chunk_tier.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"

namespace damacy {

class LaterChunks final : public ChunkTier {
 public:
  static constexpr std::size_t kMostWanted = 1 << 16;  // chunks, counted by batch

  // `most`: bytes. Memory comes from `alloc` when it is first needed, and is used again.
  LaterChunks(std::shared_ptr<Alloc> alloc, std::uint64_t most) : alloc_(std::move(alloc)), most_(most) {}

  // Of these chunks, one more batch wants the first that are within kMostWanted, until the result ends. Stamps of
  // objects do not count: they are not known yet. Outlives the result.
  [[nodiscard]] std::shared_ptr<const void> want(const std::vector<ChunkKey>& chunks);

  // Without any, nothing is found or kept.
  bool is_any_wanted() const;

  // may_be_kept: another batch wants the chunk, too.
  [[nodiscard]] Found find(const ChunkKey& key, std::uint64_t bytes) override;
  // Empty for a chunk that no batch wants.
  [[nodiscard]] Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes = 0) override;

  Counts counts() const override;  // evicted: those that no batch wants any more, too
  void reset_counts() override;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Entry {
    ChunkKey key;
    HostBuffer memory;
    std::uint64_t bytes = 0;
    std::uint32_t holds = 0;
    std::uint32_t next_unused = kNone;
    bool is_whole = false, is_wanted = false;
  };
  struct Wanted {
    std::uint32_t batches = 0;
    std::uint32_t entry = kNone;
  };
  struct Hash {
    std::size_t operator()(const ChunkKey& key) const noexcept { return hash_of(key); }
  };
  class Wants;

  Hold publish(std::uint32_t entry) noexcept override;
  void discard(std::uint32_t entry) noexcept override;
  void release(std::uint32_t entry) noexcept override;
  void end(const std::vector<ChunkKey>& chunks) noexcept;
  template <class Fits>
  std::optional<std::uint32_t> take_unused(Fits fits) DAMACY_REQUIRES(mutex_);
  std::optional<std::uint32_t> take_entry(std::uint64_t bytes) DAMACY_REQUIRES(mutex_);
  void give(std::uint32_t entry) noexcept DAMACY_REQUIRES(mutex_);
  void give_if_unneeded(std::uint32_t entry) noexcept DAMACY_REQUIRES(mutex_);

  const std::shared_ptr<Alloc> alloc_;
  const std::uint64_t most_;
  mutable Mutex mutex_;
  std::unordered_map<ChunkKey, Wanted, Hash> wanted_ DAMACY_GUARDED_BY(mutex_);
  std::size_t wanted_count_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::vector<Entry> entries_ DAMACY_GUARDED_BY(mutex_);
  std::uint32_t unused_ DAMACY_GUARDED_BY(mutex_) = kNone;
  std::uint64_t taken_ DAMACY_GUARDED_BY(mutex_) = 0;
  Counts counts_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
