// The chunks of one planned batch (or portion of one): the location of their bytes, the reads that fetch them, and what
// a reader does with the bytes: decode and place them, or report an error to the parts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "damacy/batch/batch_job.h"
#include "damacy/batch/stats_board.h"
#include "damacy/device/arena.h"
#include "damacy/fetch/wanted_chunks.h"
#include "damacy/plan/batch_plan.h"
#include "damacy/plan/part_copies.h"
#include "damacy/store/engine.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

class Readers;

// What a plan opens in a remote store: its last `bytes` are needed first, or the first if not `from_end`.
struct RemoteObject {
  std::shared_ptr<Store> store;
  std::string key;
  std::uint64_t bytes = 0;
  bool from_end = false;
  std::size_t reads = 0;  // of those bytes

  // Which its announcement takes, at most.
  std::uint64_t memory() const noexcept { return from_end ? bytes : std::max<std::uint64_t>(bytes, 64 << 10); }
};
inline constexpr std::size_t kExpectedAtOnce = 256;  // objects: a store may not ask for more at a time
// The object of an array's chunk or outermost shard.
[[nodiscard]] RemoteObject remote_object(const Array& array, std::shared_ptr<Store> store, std::string key);
[[nodiscard]] std::vector<RemoteObject> remote_objects(const BatchPlan& plan);
// Reads of the first `announced` were announced before. Throws nothing but Abandoned.
void expect(std::span<const RemoteObject> objects, std::size_t announced = 0);

// Announced reads: stores keep the bytes until these end with this.
class AnnouncedReads {
 public:
  AnnouncedReads() = default;
  explicit AnnouncedReads(std::vector<RemoteObject> objects) : objects_(std::move(objects)) {}
  ~AnnouncedReads() { end(); }
  AnnouncedReads(const AnnouncedReads&) = delete;
  AnnouncedReads& operator=(const AnnouncedReads&) = delete;
  void set(std::span<const RemoteObject> objects) { objects_.assign(objects.begin(), objects.end()); }
  void end() noexcept;

 private:
  std::vector<RemoteObject> objects_;
};

// What stores were asked for before a batch was planned: its first objects. Counts the memory of their answers.
class Announcement {
 public:
  Announcement(std::vector<RemoteObject> objects, std::uint64_t bytes, std::shared_ptr<std::atomic<std::uint64_t>> all)
      : count_(objects.size()), reads_(std::move(objects)), bytes_(bytes), all_(std::move(all)) {
    *all_ += bytes_;
  }
  ~Announcement() { *all_ -= bytes_; }
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  const std::size_t count_;
  const AnnouncedReads reads_;
  const std::uint64_t bytes_;
  const std::shared_ptr<std::atomic<std::uint64_t>> all_;
};

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
             std::shared_ptr<const Announcement> announcement = nullptr);

  // In this order: every shard (any thread, each once) opened or cancelled, then the chunks.
  void expect_shards();                // those of remote stores will be opened; throws nothing but Abandoned
  void open_shard(std::size_t shard);  // the same
  void fail_opening(std::size_t shard, const Error& why) noexcept;
  void find_chunks();
  // For advice on caches. `parts`: the engine's cache would also hold chunks of which it reads a part.
  void count_wanted(bool parts) const;
  // No more reads begin, but by open tasks.
  void planned();

  const BatchPlan& plan() const noexcept { return plan_; }
  StatsBoard& board() const noexcept override { return with_.board; }
  const Array& array_of(std::size_t shard) const { return *plan_.arrays[plan_.shards[shard].array]; }
  std::size_t shard_of(std::size_t chunk) const { return wants_.chunks[chunk].object; }
  // All of a chunk that has codecs, with Verify::whole.
  std::vector<ByteRange> needed_bytes(std::size_t chunk) const override;

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
  void set_object(std::size_t shard);
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
  std::shared_ptr<const Announcement> announcement_;
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
