// Places batches on CPU cores: a reader reads a run of chunks, decodes each while it is hot in cache, and copies it
// into every row that wants it. No decoded arena in between; memory for packed and decoded bytes is borrowed piece by
// piece.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "damacy/device/arena.h"
#include "damacy/io/engine.h"
#include "damacy/pipeline/batch_job.h"
#include "damacy/pipeline/config.h"
#include "damacy/pipeline/stats.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

class WorkerEngine {
 public:
  WorkerEngine(const Config& config, const std::shared_ptr<Alloc>& alloc, std::shared_ptr<Catalog> catalog,
               StatsBoard& board);
  ~WorkerEngine();

  // Plans a started job and submits its reads; the job settles later, on a reader. What fails is told to the job.
  void produce(const std::shared_ptr<BatchJob>& job, std::stop_token stop);

  // Runs `task` on a reader, before reads not yet begun; drops it when the engine stops first. It must not throw.
  void run_soon(std::function<void()> task);

  // Ends what runs, drops what waits (its jobs settle as failed), joins. Idempotent.
  void stop();

  std::size_t staging_bytes() const noexcept;
  std::size_t scratch_bytes() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace damacy
