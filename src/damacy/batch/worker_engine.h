// Places batches on CPU cores: a reader reads a run of chunks, decodes each while it is in cache, and copies it into
// every row that uses it. There is no arena of decoded chunks in between; memory for packed and decoded bytes is
// borrowed piece by piece.
#pragma once

#include "damacy/batch/batch_engine.h"
#include "damacy/batch/decoded_ahead.h"
#include "damacy/batch/memory_plan.h"
#include "damacy/cache/shared/shared_cache.h"
#include "damacy/device/arena.h"
#include "damacy/fetch/chunk_share.h"
#include "damacy/fetch/readers.h"

namespace damacy {

class HostRows final : public RowWriter {
 public:
  void fill_part(BatchJob& job, std::size_t part) override;
  void move_row(std::span<std::byte> to, std::span<const std::byte> from) override;
};

class WorkerEngine final : public BatchEngine {
 public:
  // `shared_cache`: of encoded chunks; null: off.
  WorkerEngine(const MemoryPlan& plan, const std::shared_ptr<Alloc>& alloc, Readers& readers, StatsBoard& board,
               std::shared_ptr<SharedCache> shared_cache = nullptr);

  bool runs_ahead() const override { return false; }
  void take(const std::shared_ptr<ChunkTasks>& tasks, std::stop_token stop) override;
  RowWriter& rows() override { return rows_; }
  std::uint64_t ready_stream() const override { return 0; }
  AtOnce at_once() const override { return {readers_.at_once(), readers_.at_once()}; }
  ChunkTier* cache() noexcept override { return cache_.get(); }
  std::shared_ptr<DecodedAhead> decoded_ahead() noexcept override { return ahead_; }
  ChunkTier* host_cache() noexcept override { return shared_cache_.get(); }
  std::size_t host_bytes() const override {
    return staging_.size() + cache_bytes_ + shared_bytes_ + (ahead_ ? ahead_->peak() : 0);
  }
  std::size_t device_bytes() const override { return scratch_.peak(); }

 private:
  Readers& readers_;
  StatsBoard& board_;
  HostRows rows_;
  ChunkShare share_;
  const std::size_t cache_bytes_, shared_bytes_;
  const std::unique_ptr<ChunkCache> cache_;    // of decoded chunks; null: off
  const std::shared_ptr<DecodedAhead> ahead_;  // null: there is a cache
  const std::shared_ptr<SharedCache> shared_cache_;
  Arena staging_;
  Arena scratch_;
};

}  // namespace damacy
