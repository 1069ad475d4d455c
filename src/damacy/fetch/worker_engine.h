// Places batches on CPU cores: a reader reads a run of chunks, decodes each while it is in cache, and copies it into
// every row that uses it. There is no arena of decoded chunks in between; memory for packed and decoded bytes is
// borrowed piece by piece.
#pragma once

#include "damacy/batch/batch_engine.h"
#include "damacy/batch/memory_plan.h"
#include "damacy/device/arena.h"
#include "damacy/fetch/chunk_share.h"
#include "damacy/fetch/readers.h"

namespace damacy {

class HostRows final : public RowWriter {
 public:
  void fill_row(BatchJob& job, std::size_t row) override;
  void move_row(BatchJob& job, std::size_t from, std::size_t to) override;
};

class WorkerEngine final : public BatchEngine {
 public:
  WorkerEngine(const MemoryPlan& plan, Verify verify, const std::shared_ptr<Alloc>& alloc,
               std::shared_ptr<Catalog> catalog, StatsBoard& board, const std::shared_ptr<const Clock>& clock);

  bool runs_ahead() const override { return false; }
  void produce(const Task<BatchJob>& job, std::stop_token stop) noexcept override;
  void flush() override {}
  void ask(std::shared_ptr<StorageWork> work, std::size_t count, std::size_t lanes,
           std::function<void()> all_told) override {
    readers_.ask(std::move(work), count, lanes, std::move(all_told));
  }
  void abandon_overdue() noexcept override { readers_.abandon_overdue(); }
  bool stop(const std::shared_ptr<void>& keep) noexcept override { return readers_.stop(keep); }
  RowWriter& rows() override { return rows_; }
  std::uint64_t ready_stream() const override { return 0; }
  AtOnce at_once() const override { return {readers_.at_once(), readers_.at_once()}; }
  std::size_t host_bytes() const override { return staging_.size(); }
  std::size_t device_bytes() const override { return scratch_.peak(); }

 private:
  std::shared_ptr<Catalog> catalog_;
  StatsBoard& board_;
  Verify verify_;
  HostRows rows_;
  ChunkShare share_;
  Arena staging_;
  Arena scratch_;
  Readers readers_;  // last: its threads use all of the above
};

}  // namespace damacy
