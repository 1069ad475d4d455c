// What stores are asked for before a batch has a slot: its objects, and then reads of its chunks. The bytes stay until
// the last announced batch that wants them took them. Knows objects, chunks and the memory of answers; not what the
// bytes are for.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "damacy/batch/answers_ahead.h"
#include "damacy/batch/decoded_ahead.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/announced_reads.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/fetch/wanted_chunks.h"

namespace damacy {

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
