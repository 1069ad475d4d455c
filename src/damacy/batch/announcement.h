// What stores are asked for before a batch has a slot: its objects, and then reads of its chunks. The bytes stay until
// the last announced batch that wants them took them. Knows objects, chunks and the memory of answers; not what the
// bytes are for.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "damacy/batch/decoded_ahead.h"
#include "damacy/cache/chunk_key.h"
#include "damacy/core/error.h"
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

// What stores were asked for before a batch was planned: the first of its objects, as many as there is memory for, and
// then reads of its chunks. Thread-safe.
class Announcement {
 public:
  Announcement(std::vector<RemoteObject> objects, std::shared_ptr<AnswersAhead> ahead) noexcept;
  ~Announcement();
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  [[nodiscard]] const std::vector<RemoteObject>& objects() const noexcept { return reads_.objects(); }
  // Asks the store of the next object, if there is one, as soon as no other thread asks. What announces and what plans
  // both do, until has_more() is false: so all are asked for before one is opened, and before those of later batches.
  // Throws nothing but Abandoned.
  void ask_next();
  [[nodiscard]] bool has_more() const noexcept;
  // Keeps chunks at these places decoded until end_decoded(), or until this is destroyed. Only the planner calls both.
  void want_decoded(std::shared_ptr<DecodedAhead> of, std::span<const DecodedAhead::Place> places) {
    decoded_.emplace(std::move(of), places);
  }
  void end_decoded() noexcept { decoded_.reset(); }
  // Before the batch is planned: objects are opened between the first and the last of these, so that storage is asked
  // once for each, by what announces or by what plans. False: it is planned.
  [[nodiscard]] bool begin_opening() noexcept;
  void open(std::size_t shard, const std::function<void()>& open);
  void end_opening() noexcept;
  void time_out(const Error& why) noexcept;  // storage does not answer the present call
  // The batch is planned: what could not be opened just now, by shard of its plan. Waits until opening ends.
  [[nodiscard]] std::map<std::size_t, Error> take_failures(
      const std::stop_token& stop, std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  // Of the batch's chunks, before it is planned, and keeps them. Afterwards it does nothing. Throws as
  // AnswersAhead::begin_reads().
  void begin_reads(Wants wants);
  // The batch is planned: begins the others, and leaves all of them to `wants`. Throws likewise.
  void take_reads(Wants& wants);
  void forget(const ChunkKey& chunk) noexcept { ahead_->forget(chunk); }

 private:
  [[nodiscard]] std::size_t asked() const noexcept;
  void end_asking() noexcept;
  void end_opening_now() noexcept DAMACY_REQUIRES(mutex_);

  const std::shared_ptr<AnswersAhead> ahead_;
  AnnouncedReads reads_;
  std::optional<DecodedAhead::Wanted> decoded_;
  mutable Mutex mutex_;
  Condition asking_ended_;
  StoppableCondition opening_ended_;
  std::size_t asked_ DAMACY_GUARDED_BY(mutex_) = 0;  // objects
  bool is_planned_ DAMACY_GUARDED_BY(mutex_) = false, is_asking_ DAMACY_GUARDED_BY(mutex_) = false,
                   is_opening_ DAMACY_GUARDED_BY(mutex_) = false;
  std::optional<std::size_t> now_ DAMACY_GUARDED_BY(mutex_);  // the shard that is being opened
  std::map<std::size_t, Error> failures_ DAMACY_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point ended_at_ DAMACY_GUARDED_BY(mutex_);  // opening
  std::vector<WholeObject> kept_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
