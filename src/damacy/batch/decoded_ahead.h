// Decoded chunks that announced batches want, in memory of a fixed size: one that several want is decoded once, and
// kept until the last of them took it. Knows where chunks are wanted before their objects are open, and their ids
// later; not what decodes or takes them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "damacy/cache/chunk_key.h"
#include "damacy/cache/chunk_tier.h"
#include "damacy/core/mutex.h"
#include "damacy/device/arena.h"

namespace damacy {

class DecodedAhead final : public ChunkTier {
 public:
  // The memory is taken when the first chunk is wanted.
  DecodedAhead(std::shared_ptr<Alloc> alloc, std::size_t bytes) : alloc_(std::move(alloc)), bytes_(bytes) {}
  DecodedAhead(const DecodedAhead&) = delete;
  DecodedAhead& operator=(const DecodedAhead&) = delete;

  // A chunk of an array, whatever its version: a hash. Two with the same hash are kept too long or too short.
  using Place = std::uint64_t;
  // The chunks that one batch wants. Its constructor may throw Error(oom).
  class Wanted {
   public:
    Wanted(std::shared_ptr<DecodedAhead> of, std::span<const Place> places);
    ~Wanted();
    Wanted(const Wanted&) = delete;
    Wanted& operator=(const Wanted&) = delete;

   private:
    explicit Wanted(std::shared_ptr<DecodedAhead> of) noexcept : of_(std::move(of)) {}

    const std::shared_ptr<DecodedAhead> of_;
    std::vector<Place> places_;  // that are counted
  };
  // Sets the ids of the chunks at these places. Before a batch looks them up; a chunk without an id is not kept.
  struct Named {
    Place place;
    ChunkKey id;
  };
  void name(std::span<const Named> chunks);

  [[nodiscard]] Found find(const ChunkKey& key, std::uint64_t bytes) override;
  // Whether find() would have a chunk. Not counted.
  [[nodiscard]] bool has(const ChunkKey& key) const;
  // Empty also where no other batch wants the chunk, or there is no memory.
  [[nodiscard]] Filling reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t note_bytes = 0) override;
  Counts counts() const override;
  void reset_counts() override;
  std::size_t peak() const noexcept;  // bytes: what can be resident

 private:
  struct Wants {
    std::size_t batches = 0;
    std::optional<ChunkKey> id{};          // of the chunk that is there now
    std::optional<std::uint32_t> entry{};  // that has it
  };
  struct Entry {
    Arena::Piece memory;
    Place place = 0;
    std::size_t users = 0;  // who fills it, and holds
    bool is_whole = false, is_wanted = true;
  };

  Hold publish(std::uint32_t entry) noexcept override;
  void discard(std::uint32_t entry) noexcept override;
  void release(std::uint32_t entry) noexcept override;
  Wants* wants_of(const ChunkKey& key) DAMACY_REQUIRES(mutex_);
  void forget_chunk(Place place, Wants& wants) noexcept DAMACY_REQUIRES(mutex_);

  const std::shared_ptr<Alloc> alloc_;
  const std::size_t bytes_;
  mutable Mutex mutex_;
  std::optional<Arena> memory_ DAMACY_GUARDED_BY(mutex_);  // ends after its pieces
  std::unordered_map<Place, Wants> wants_ DAMACY_GUARDED_BY(mutex_);
  std::unordered_map<ChunkKey, Place, ChunkKeyHash> places_ DAMACY_GUARDED_BY(mutex_);
  std::unordered_map<std::uint32_t, Entry> entries_ DAMACY_GUARDED_BY(mutex_);
  std::uint32_t last_entry_ DAMACY_GUARDED_BY(mutex_) = 0;
  Counts counts_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
