// Plans batches for an engine: divides a batch into portions, opens their shards, locates their chunks, and hands them
// to the engine. Owns the readers and the engine. Knows batches and plans; not how chunks are placed.
#pragma once

#include <memory>
#include <stop_token>

#include "damacy/fetch/batch_engine.h"
#include "damacy/fetch/plan_portions.h"
#include "damacy/fetch/readers.h"

namespace damacy {

class BatchPlanner {
 public:
  // The engine uses these readers.
  BatchPlanner(std::unique_ptr<Readers> readers, std::unique_ptr<BatchEngine> engine, StatsBoard& board,
               std::shared_ptr<Catalog> catalog, Verify verify)
      : planning_{*readers, board, std::move(catalog), verify},
        readers_(std::move(readers)),
        engine_(std::move(engine)) {}
  ~BatchPlanner() { stop(nullptr); }
  BatchPlanner(const BatchPlanner&) = delete;
  BatchPlanner& operator=(const BatchPlanner&) = delete;

  Readers& readers() noexcept { return *readers_; }
  BatchEngine& engine() noexcept { return *engine_; }

  // One thread. Gives the chunks of a batch to the engine; the batch settles later. May wait for memory. Failures go to
  // the batch.
  void produce(const Task<BatchJob>& job, const std::stop_token& stop) noexcept;
  // After the last produce(). Ends running requests, drops waiting ones (their batches settle as failed), joins.
  // Idempotent. True if threads stuck in storage were detached with `keep`.
  bool stop(const std::shared_ptr<void>& keep) noexcept;

 private:
  const Planning planning_;
  std::unique_ptr<Readers> readers_;
  std::unique_ptr<BatchEngine> engine_;
};

}  // namespace damacy
