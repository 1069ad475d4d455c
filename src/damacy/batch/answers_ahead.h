// Memory of answers that stores are asked for before a batch has a slot: of its objects, and reads of its chunks. Knows
// which batches share them, and when the bytes may go; not what the bytes are for.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "damacy/batch/decoded_ahead.h"
#include "damacy/cache/chunk_key.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/announced_reads.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/fetch/wanted_chunks.h"

namespace damacy {

// An announced object brought its first bytes: all of a chunk without a shard, unless it is large.
[[nodiscard]] bool came_with_its_object(const ArrayMetadata& metadata);

// Memory of answers that stores were asked for before batches are planned: of what several batches want, once.
// Thread-safe.
class AnswersAhead : public std::enable_shared_from_this<AnswersAhead> {
 public:
  static constexpr auto kFailureIsNew = std::chrono::seconds(10);

  // `reads_chunks`: also of chunks. Not where some cache may have a chunk, because only a look-up says so, and it
  // counts; nor where the reads of batches without a slot begin anyway.
  // `decoded`: chunks that it has are not read; null: none.
  // `failure_is_new`: a read that began longer ago than that, and failed, is made once more when it is taken.
  explicit AnswersAhead(std::uint64_t most, bool reads_chunks = false,
                        std::shared_ptr<const DecodedAhead> decoded = nullptr,
                        std::chrono::nanoseconds failure_is_new = kFailureIsNew)
      : most_(most), reads_chunks_(reads_chunks), decoded_(std::move(decoded)), failure_is_new_(failure_is_new) {}
  // False: there is no room.
  [[nodiscard]] bool add(const RemoteObject& object) noexcept;
  void remove(const RemoteObject& object) noexcept;
  // Begins the reads of the chunks that no read is under way for, in their order, while more than a quarter of the
  // memory is left. Sets Wants::ahead, by which the caller keeps the bytes. Chunks of which parts are needed, that came
  // with their object, or whose object has no version are left out. What cannot be begun is left out, too. Calls
  // storage, and so throws what StorageWatch makes of a call that is abandoned.
  void begin_reads(Wants& wants);
  // The bytes of a chunk are damaged: who wants it later reads it again.
  void forget(const ChunkKey& chunk) noexcept;
  [[nodiscard]] bool reads_chunks() const noexcept { return reads_chunks_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }

 private:
  class Read;
  class Turn;
  struct ReadChunk {
    std::weak_ptr<Read> read;
    std::uint64_t begin;  // of the chunk's object, in what is read
  };
  struct ByKey {
    bool operator()(const RemoteObject& left, const RemoteObject& right) const noexcept {
      return std::tie(left.store, left.key) < std::tie(right.store, right.key);
    }
  };
  WholeObject find(const Want& want) const;
  void begin(const ChunkRun& run, Wants& wants);
  bool reserve(std::uint64_t bytes) noexcept;
  void end(const Read& read) noexcept;

  const std::uint64_t most_;
  const bool reads_chunks_;
  const std::shared_ptr<const DecodedAhead> decoded_;
  const std::chrono::nanoseconds failure_is_new_;
  Mutex turn_mutex_;  // with no other
  Condition turn_ended_;
  bool is_beginning_ DAMACY_GUARDED_BY(turn_mutex_) = false;  // a thread begins reads, each chunk's once
  mutable Mutex mutex_;
  std::size_t reads_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::map<RemoteObject, std::size_t, ByKey> batches_ DAMACY_GUARDED_BY(mutex_);  // how many want an object
  std::unordered_map<ChunkKey, ReadChunk, ChunkKeyHash> chunks_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
