// The chunks of one planned batch (or portion of one): where their bytes are, the reads that fetch them, and what a
// reader does with the bytes: decode, place into rows, or tell the rows what went wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "damacy/device/arena.h"
#include "damacy/io/engine.h"
#include "damacy/pipeline/batch_job.h"
#include "damacy/pipeline/stats.h"
#include "damacy/plan/batch_plan.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

class ChunkTasks {
 public:
  // What tasks work with; outlives them.
  struct Place {
    Arena& staging;  // packed bytes
    Arena& scratch;  // decoded bytes
    std::vector<DecodeContext>& contexts;
    StatsBoard& board;
    Catalog& catalog;
  };
  // Holds one task of the job open until its own last task is closed; one of its own is open until close_task().
  ChunkTasks(std::shared_ptr<BatchJob> job, BatchPlan plan, const Place& place);

  const BatchPlan& plan() const noexcept { return plan_; }

  // In this order: every shard (any thread, each once), then the chunks, then the requests.
  void open_shard(std::size_t shard, Catalog& catalog) noexcept;
  void find_chunks();
  static std::vector<std::unique_ptr<Request>> make_requests(const std::shared_ptr<ChunkTasks>& tasks);
  void close_task() noexcept;

 private:
  friend class ChunkRunRead;
  friend class PartialRead;
  friend class FillTask;

  struct Where {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool missing = false;
    bool failed = false;
  };
  const Array& array_of(std::size_t shard) const { return *plan_.arrays[plan_.shards[shard].array]; }
  std::span<const std::uint32_t> rows_of(const PlannedChunk& chunk) const {
    return std::span(plan_.uses).subspan(chunk.first_use, chunk.use_count);
  }
  Where locate(std::size_t shard, const PlannedChunk& chunk) const;
  std::vector<ByteRange> needed_bytes(const Array& array, const PlannedChunk& chunk) const;
  bool worth_reading_partially(std::size_t shard, std::size_t chunk) const;

  // On a reader. `packed` is as long as the encoded chunk; with `available`, only those ranges of it were read. False:
  // they were too few, and nothing was placed; all else ends here.
  bool place_packed(std::size_t thread, std::size_t shard, std::size_t chunk, std::span<const std::byte> packed,
                    std::span<const ByteRange> available, std::stop_token stop) noexcept;
  void place_decoded(const Array& array, const PlannedChunk& chunk, std::span<const std::byte> decoded);
  void fill_chunk(std::size_t shard, std::size_t chunk) noexcept;
  // Words a failure and tells all rows that want the chunk (or any chunk of the shard).
  Error word(const DecodeResult& result) const;
  void fail_chunk(std::size_t shard, std::size_t chunk, Error error) noexcept;
  void fail_shard(std::size_t shard, const Error& error) noexcept;
  void check_unchanged() noexcept;
  void settle() noexcept;

  std::shared_ptr<BatchJob> job_;
  BatchPlan plan_;
  Place place_;
  std::vector<std::shared_ptr<const Shard>> shards_;  // null: absent
  std::vector<std::uint8_t> shard_failed_;
  std::vector<Where> where_;  // by chunk of the plan
  std::vector<std::uint32_t> shard_of_chunk_;
  std::atomic<std::int64_t> open_{1};

  std::atomic<std::int64_t> decode_ns_{0}, encoded_bytes_{0}, decoded_bytes_{0}, place_ns_{0}, used_bytes_{0},
      placed_bytes_{0};
};

}  // namespace damacy
