// Plans batches for an engine: divides a batch into portions, opens their shards, locates their chunks, and hands them
// to the engine. Owns the readers and the engine. Knows batches and plans; not how chunks are placed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "damacy/batch/batch_engine.h"
#include "damacy/batch/chunk_tasks.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/readers.h"

namespace damacy {

struct Planning : ChunkTasks::With {
  std::function<void()> while_waiting = {};  // called now and then while stores are waited for
};

// Plans a started batch, in portions if it is large, and opens its shards. `announcement`: of its first portion; null
// if there was none. Calls `each` with every portion after its chunks are located. The task keeps the batch unfinished
// meanwhile.
void plan_portions(const Task<BatchJob>& task, const Planning& with, std::shared_ptr<Announcement> announcement,
                   const std::stop_token& stop,
                   const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) noexcept;

// Asks stores for what batches will need: announces the objects of all of them, one after the other, and then begins
// their reads, batch by batch. What the first batch needs is asked for first.
class Announcer final : public BlockingCalls {
 public:
  // `begin_reads`: of the batch; null: none. True: a thread has to call.
  [[nodiscard]] bool add(const std::shared_ptr<Announcement>& announcement, std::function<void()> begin_reads = {});
  void call(std::size_t) override;  // until nothing is left
  void time_out(std::size_t, const Error&) noexcept override;
  void clear() noexcept;  // nothing of it is needed

 private:
  struct BatchReads {
    std::weak_ptr<Announcement> of;
    std::function<void()> begin;
  };
  std::function<void()> next();  // null: nothing is left

  Mutex mutex_;
  std::deque<std::weak_ptr<Announcement>> unasked_ DAMACY_GUARDED_BY(mutex_);  // the first has more to ask for, perhaps
  std::deque<BatchReads> reads_ DAMACY_GUARDED_BY(mutex_);
  std::weak_ptr<Announcement> now_ DAMACY_GUARDED_BY(mutex_);  // of the present call
  bool is_called_ DAMACY_GUARDED_BY(mutex_) = false;
};

class BatchPlanner {
 public:
  // The engine uses these readers.
  // `answer_bytes`: memory of answers that are asked for ahead, of which arrays that are not open yet have a part and
  // batches that are produced later the rest. `reads_ahead`: also of their chunks, as of AnswersAhead.
  BatchPlanner(std::unique_ptr<Readers> readers, std::unique_ptr<BatchEngine> engine, StatsBoard& board,
               std::shared_ptr<Catalog> catalog, Verify verify, std::size_t answer_bytes, bool reads_ahead)
      : planning_{*readers, board, std::move(catalog), verify},
        document_bytes_(std::min(answer_bytes / 2, kDocumentBytes)),
        ahead_(std::make_shared<AnswersAhead>(answer_bytes - document_bytes_, reads_ahead, engine->decoded_ahead())),
        readers_(std::move(readers)),
        engine_(std::move(engine)) {}
  ~BatchPlanner() { stop(nullptr); }
  BatchPlanner(const BatchPlanner&) = delete;
  BatchPlanner& operator=(const BatchPlanner&) = delete;

  Readers& readers() noexcept { return *readers_; }
  BatchEngine& engine() noexcept { return *engine_; }
  std::size_t document_bytes() const noexcept { return document_bytes_; }

  // One thread makes these calls. A batch that is produced later: remote stores ask for its objects now, or for the
  // first of many, and then for its chunks. Waits for nothing, reports nothing. can_announce(): those announced before
  // that have not settled leave a quarter of the memory, or more.
  [[nodiscard]] bool can_announce() const noexcept;
  void announce(const BatchJob& job) noexcept;
  // What produce() calls now and then while it waits for stores. Before the first.
  void set_while_waiting(std::function<void()> call) { planning_.while_waiting = std::move(call); }
  // Gives the chunks of a batch to the engine; the batch settles later. May wait for memory. Failures go to the batch.
  void produce(const Task<BatchJob>& job, const std::stop_token& stop) noexcept;
  // In place of that.
  void fail(BatchJob& job, const Error& why) noexcept;
  // After the last produce(). Ends running requests, drops waiting ones (their batches settle as failed), joins.
  // Idempotent. True if threads stuck in storage were detached with `keep`.
  bool stop(const std::shared_ptr<void>& keep) noexcept;

 private:
  static constexpr std::size_t kDocumentBytes = 16 << 20;

  Planning planning_;
  const std::size_t document_bytes_;
  const std::shared_ptr<AnswersAhead> ahead_;
  const std::shared_ptr<Announcer> announcer_ = std::make_shared<Announcer>();
  std::unique_ptr<Readers> readers_;
  std::unique_ptr<BatchEngine> engine_;
  std::unordered_map<const BatchJob*, std::shared_ptr<Announcement>> announced_;  // of batches not yet produced
};

}  // namespace damacy
