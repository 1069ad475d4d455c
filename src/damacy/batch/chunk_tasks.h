// The chunks of one planned batch (or portion of one): the location of their bytes, the reads that fetch them, and what
// a reader does with the bytes: decode and place them, or report an error to the parts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "damacy/batch/announcement.h"
#include "damacy/batch/batch_job.h"
#include "damacy/device/arena.h"
#include "damacy/fetch/announced_reads.h"
#include "damacy/fetch/stats_board.h"
#include "damacy/fetch/wanted_chunks.h"
#include "damacy/plan/batch_plan.h"
#include "damacy/plan/part_copies.h"
#include "damacy/store/engine.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

class Readers;

// Of the chunks of a plan, before they are located: the same numbers.
[[nodiscard]] Wants wants_of(const BatchPlan& plan);
// That object, of the version that was opened, of which its chunks' ids are.
void set_object(Wants& wants, const BatchPlan& plan, std::size_t shard, std::shared_ptr<Object> object);
// The decoded bytes of a chunk that parts need, as FetchedChunks::needed_bytes().
[[nodiscard]] std::vector<ByteRange> needed_bytes(const BatchPlan& plan, std::span<const PlannedPart> parts,
                                                  std::size_t chunk, Verify verify);

// The places of a plan's chunks that stay decoded: of remote arrays, unless they are raw or small.
[[nodiscard]] std::vector<DecodedAhead::Place> places_decoded(const BatchPlan& plan);

class ChunkTasks final : public Job,
                         public WantedChunks,
                         public Abandonable,
                         public std::enable_shared_from_this<ChunkTasks> {
 public:
  struct With {
    Readers& readers;
    StatsBoard& board;
    std::shared_ptr<Catalog> catalog;
    Verify verify = Verify::needed;
  };
  // Has a task of the batch until its own last task ends, and the announcement, if there was one. One read is pending
  // until planned().
  ChunkTasks(const std::shared_ptr<BatchJob>& job, BatchPlan plan, With with,
             std::shared_ptr<Announcement> announcement = nullptr);

  // Before the first shard: those that could not be opened ahead have failed. Waits while they are being opened.
  void take_failures(const std::stop_token& stop);
  // In this order: every shard (any thread, each once) opened or cancelled, then the chunks.
  void expect_shards();                // those of remote stores will be opened; throws nothing but Abandoned
  void open_shard(std::size_t shard);  // the same
  void fail_opening(std::size_t shard, const Error& why) noexcept;
  void find_chunks();
  [[nodiscard]] bool is_announced() const noexcept { return announcement_ != nullptr; }
  void take_reads();  // of what was announced, after find_chunks(); throws nothing but Abandoned
  // Gives `ahead` the ids of the chunks that are decoded as a whole. Before they are looked up. False: there are none.
  [[nodiscard]] bool name_decoded(DecodedAhead& ahead) const noexcept;
  void end_decoded() noexcept;  // after the look-ups: this batch does not need them kept
  // For advice on caches. `parts`: the engine's cache would also hold chunks of which it reads a part.
  void count_wanted(bool parts) const;
  // No more reads begin, but by open tasks: those have what was read ahead.
  void planned();

  const BatchPlan& plan() const noexcept { return plan_; }
  StatsBoard& board() const noexcept override { return with_.board; }
  const Array& array_of(std::size_t shard) const { return *plan_.arrays[plan_.shards[shard].array]; }
  std::size_t shard_of(std::size_t chunk) const { return wants_.chunks[chunk].object; }
  // All of a chunk that has codecs, with Verify::whole.
  std::vector<ByteRange> needed_bytes(std::size_t chunk) const override {
    return damacy::needed_bytes(plan_, job_->parts(), chunk, with_.verify);
  }

  Task<Job> new_task() noexcept override { return Task<Job>(shared_from_this()); }

  Destination& destination() const noexcept override { return *job_; }
  std::int64_t count_uses(std::size_t chunk) const noexcept override;
  std::span<const std::byte> fill_of(std::size_t chunk) const override;

  void count_decode(StatsBoard::Span time, std::uint64_t encoded, std::uint64_t decoded) noexcept override;
  void count_placed(StatsBoard::Span time, std::size_t chunk, std::int64_t elements, Decode how) noexcept override;
  // Reports the error to all parts that use the chunk (or any chunk of the shard).
  void fail_chunk(std::size_t chunk, const Error& error) noexcept override;
  void fail_shard(std::size_t shard, const Error& error) noexcept;
  void fail_all(const Error& error) noexcept override;

  // On a watched thread: fails objects that have changed since they were read. Throws nothing but Abandoned.
  void check_unchanged();
  // Storage does not answer.
  void abandon(const Error& why) noexcept override { fail_all(why); }

 private:
  void settle() noexcept override;
  void visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const override;
  // The last read checks that the objects are unchanged.
  void read_begins() noexcept override;
  void read_ended() override;
  void read_ended_elsewhere() noexcept override;
  std::span<const std::uint32_t> parts_of(std::size_t chunk) const {
    return std::span(plan_.uses).subspan(plan_.chunks[chunk].first_use, plan_.chunks[chunk].use_count);
  }
  const PlannedPart& part(std::uint32_t number) const noexcept { return job_->parts()[number]; }
  ChunkInArray in_array(std::size_t chunk) const { return {array_of(shard_of(chunk)), plan_.chunks[chunk].number}; }
  std::int64_t bytes_placed(std::size_t chunk, std::int64_t elements) const noexcept;
  ChunkPlace locate(std::size_t shard, const PlannedChunk& chunk) const;
  void fail_parts(std::size_t chunk, const Error& error) noexcept;  // those that want it
  bool end_read() noexcept;                                         // true: that was the last
  void check_last_read();
  void check_elsewhere() noexcept;
  void compare_stamps();

  std::shared_ptr<BatchJob> job_;
  Task<BatchJob> task_;  // its
  BatchPlan plan_;
  With with_;
  std::shared_ptr<Announcement> announcement_;
  std::map<std::size_t, Error> failures_;             // of shards, ahead
  AnnouncedReads expected_;                           // those that the announcement has not
  std::vector<std::shared_ptr<const Shard>> shards_;  // null: absent. Each is an object of wants_
  std::vector<std::uint8_t> shard_failed_;
  bool shards_done_ = false;  // the planner's: opened or failed, all of them
  std::atomic<std::int64_t> open_reads_{1};

  std::atomic<std::int64_t> decode_ns_{0}, encoded_bytes_{0}, decoded_bytes_{0};
  std::atomic<std::int64_t> place_ns_{0}, used_bytes_{0}, placed_bytes_{0};
  // Chunks, for the board of statistics when all are done: a lock for each would slow down the threads that place.
  std::atomic<std::int64_t> decoded_{0}, decoded_on_host_{0}, deduplicated_{0};
};

}  // namespace damacy
