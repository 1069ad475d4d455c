#include "damacy/batch/worker_engine.h"

#include <algorithm>
#include <new>

#include "damacy/batch/chunk_tasks.h"
#include "damacy/copy/block_copy.h"
#include "damacy/core/formatted.h"
#include "damacy/fetch/cached_chunks.h"
#include "damacy/fetch/cached_task.h"
#include "damacy/fetch/host_sink.h"

namespace damacy {
namespace {

// Memory of the readers; outlives all requests.
struct WorkerMemory {
  Arena& staging;                        // packed bytes
  Arena& scratch;                        // decoded bytes
  std::vector<DecodeContext>& contexts;  // by thread
  ChunkShare& share;
  HostTiers tiers;
};

constexpr std::size_t kFillsATask = 64;
constexpr std::size_t kEncodedBytesATask = 64 << 10;  // decoding takes longer

// For rows of this batch, and of other batches that joined.
class RowSink final : public HostSink {
 public:
  RowSink(const std::shared_ptr<ChunkTasks>& tasks, const WorkerMemory& memory)
      : HostSink(tasks, {memory.staging, memory.scratch, memory.contexts}, memory.tiers),
        tasks_(*tasks),
        share_(memory.share),
        announced_(tasks->plan().chunks.size()) {}

  // Its whole bytes will be taken, once: other batches may join. Before the first request.
  void announce(std::uint32_t chunk) {
    share_.announce(tasks_.id_of(chunk));
    announced_[chunk] = true;
  }

  const ChunkTasks& tasks() const noexcept { return tasks_; }

 private:
  std::vector<ChunkConsumer> joined_to(std::size_t chunk) noexcept override {
    if (!announced_[chunk]) return {};  // they joined another read, which may have more of the chunk
    return share_.claim(tasks_.id_of(chunk));
  }
  ChunkTasks& tasks_;
  ChunkShare& share_;
  std::vector<bool> announced_;
};

// Chunks that are absent.
class FillTask final : public Request {
 public:
  FillTask(const std::shared_ptr<HostSink>& sink, std::vector<std::uint32_t> chunks)
      : task_(sink->chunks().new_task()), sink_(sink), chunks_(std::move(chunks)) {}
  Part prepare(std::size_t, std::stop_token) override { return {}; }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    for (const std::uint32_t chunk : chunks_) {
      if (failure != nullptr)
        sink_->chunks().fail_chunk(chunk, *failure);
      else
        sink_->fill(chunk);
    }
  }

 private:
  const Task<Job> task_;  // ends after all below
  const std::shared_ptr<HostSink> sink_;
  std::vector<std::uint32_t> chunks_;
};

// Encoded chunks of a tier: decoded and placed. A chunk whose bytes were overwritten meanwhile is read.
class EncodedTask final : public Request {
 public:
  EncodedTask(const std::shared_ptr<RowSink>& sink, Readers& readers)
      : task_(sink->chunks().new_task()), sink_(sink), readers_(readers) {}
  void add(CachedChunk kept) {
    bytes_ += kept.hold.bytes().size();
    chunks_.push_back(std::move(kept));
  }
  bool is_full() const noexcept { return chunks_.size() >= kCachedATask || bytes_ >= kEncodedBytesATask; }
  Part prepare(std::size_t, std::stop_token stop) override {
    stop_ = std::move(stop);
    return {};
  }
  void complete(std::size_t thread, const Part&, const Error* failure) noexcept override {
    for (const CachedChunk& kept : chunks_) {
      if (failure != nullptr)
        sink_->chunks().fail_chunk(kept.chunk, *failure);
      else if (!sink_->take_kept(thread, kept.chunk, kept.hold, stop_))
        read(kept.chunk);
    }
  }

 private:
  void read(std::uint32_t chunk) noexcept {
    const auto failed = failure_of(
        [&] { readers_.submit(std::make_unique<ChunkRunRead>(sink_, run_of_chunk(sink_->chunks().wants(), chunk))); });
    if (failed) sink_->chunks().fail_chunk(chunk, *failed);
  }

  const Task<Job> task_;  // ends after all below
  const std::shared_ptr<RowSink> sink_;
  Readers& readers_;
  std::stop_token stop_;
  std::vector<CachedChunk> chunks_;
  std::size_t bytes_ = 0;
};

// Whether `right` is next to `left` along the last axis.
bool are_neighbours(const ChunkTasks& tasks, std::uint32_t left, std::uint32_t right) {
  const std::size_t shard = tasks.shard_of(left);
  if (right != left + 1 || tasks.shard_of(right) != shard) return false;
  const std::int64_t number = tasks.plan().chunks[right].number;
  const Dims& grid = tasks.array_of(shard).grid();
  return number == tasks.plan().chunks[left].number + 1 && grid.size() > 0 && number % grid[grid.size() - 1] != 0;
}

void add_cached(std::vector<CachedChunk> chunks, const std::shared_ptr<RowSink>& sink,
                std::vector<std::unique_ptr<Request>>& requests) {
  std::unique_ptr<CachedTask> task;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!task) task = std::make_unique<CachedTask>(sink);
    const std::uint32_t chunk = chunks[i].chunk;
    task->add(std::move(chunks[i]));
    const bool before_neighbour = i + 1 < chunks.size() && are_neighbours(sink->tasks(), chunk, chunks[i + 1].chunk);
    if (task->is_full(before_neighbour)) requests.push_back(std::move(task));
  }
  if (task) requests.push_back(std::move(task));
}

void add_encoded(std::vector<CachedChunk> chunks, const std::shared_ptr<RowSink>& sink, Readers& readers,
                 std::vector<std::unique_ptr<Request>>& requests) {
  std::unique_ptr<EncodedTask> task;
  for (CachedChunk& chunk : chunks) {
    if (!task) task = std::make_unique<EncodedTask>(sink, readers);
    task->add(std::move(chunk));
    if (task->is_full()) requests.push_back(std::move(task));
  }
  if (task) requests.push_back(std::move(task));
}

std::vector<std::unique_ptr<Request>> make_worker_requests(const std::shared_ptr<ChunkTasks>& tasks,
                                                           const WorkerMemory& memory, Readers& readers) {
  std::vector<std::unique_ptr<Request>> requests;
  const auto sink = std::make_shared<RowSink>(tasks, memory);
  std::vector<CachedChunk> cached, encoded;
  const ChunkReads reads = find_reads(tasks->wants(), [&](std::uint32_t chunk) {
    if (auto hold = sink->decoded().find(chunk)) {
      cached.push_back({chunk, std::move(*hold)});
      return true;
    }
    if (auto hold = sink->encoded().find(chunk)) {
      encoded.push_back({chunk, std::move(*hold)});
      return true;
    }
    return memory.share.join(tasks, chunk);
  });
  add_cached(std::move(cached), sink, requests);
  add_encoded(std::move(encoded), sink, readers, requests);
  for (const std::uint32_t chunk : reads.partial) requests.push_back(std::make_unique<PartialRead>(sink, chunk));
  for (std::size_t i = 0; i < reads.missing.size(); i += kFillsATask) {
    const auto first = reads.missing.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last =
        reads.missing.begin() + static_cast<std::ptrdiff_t>(std::min(i + kFillsATask, reads.missing.size()));
    requests.push_back(std::make_unique<FillTask>(sink, std::vector<std::uint32_t>(first, last)));
  }
  for (const ChunkRun& run : reads.runs) requests.push_back(std::make_unique<ChunkRunRead>(sink, run));
  try {  // last: a batch that joins an announced chunk waits for it
    for (const ChunkRun& run : reads.runs)
      for (const std::uint32_t chunk : run.chunks) sink->announce(chunk);
  } catch (...) {
    for (const ChunkRun& run : reads.runs)
      for (const std::uint32_t chunk : run.chunks) sink->fail_read(chunk, current_error());
    throw;
  }
  return requests;
}

std::unique_ptr<ChunkCache> make_cache(const MemoryPlan& plan, const std::shared_ptr<Alloc>& alloc) {
  if (plan.cache == 0) return nullptr;
  return make_part(PartId::cache, [&] {
    try {
      auto cache = std::make_unique<ChunkCache>(plan.cache, alloc);
      cache->clear_pages_ahead();
      return cache;
    } catch (const std::bad_alloc&) {
      throw Error(Status::oom, formatted("no memory for the index of a cache of {} bytes", plan.cache), "memory");
    }
  });
}

}  // namespace

WorkerEngine::WorkerEngine(const MemoryPlan& plan, const std::shared_ptr<Alloc>& alloc, Readers& readers,
                           StatsBoard& board, std::shared_ptr<SharedCache> shared_cache)
    : readers_(readers),
      board_(board),
      cache_bytes_(plan.cache),
      shared_bytes_(plan.shared_cache),
      cache_(make_cache(plan, alloc)),
      ahead_(plan.decoded_ahead > 0 ? std::make_shared<DecodedAhead>(alloc, plan.decoded_ahead) : nullptr),
      shared_cache_(std::move(shared_cache)),
      staging_(make_part(PartId::staging, [&] { return Arena(alloc, plan.staging); })),
      scratch_(make_part(PartId::scratch, [&] { return Arena(alloc, plan.scratch); })) {}

void HostRows::fill_part(BatchJob& job, std::size_t part) {
  const ArrayMetadata& metadata = job.parts()[part].array->metadata();
  job.for_fill(part, [&](const BlockCopy& copy) {
    run_block_copy(copy, std::span(metadata.fill).first(size_of(metadata.dtype)), job.memory());
  });
}

void HostRows::move_row(std::span<std::byte> to, std::span<const std::byte> from) {
  std::ranges::copy(from, to.begin());
}

void WorkerEngine::take(const std::shared_ptr<ChunkTasks>& tasks, std::stop_token) {
  board_.add(&Stats::waves_emitted, 1);
  tasks->count_wanted(/*parts=*/true);
  HostTiers tiers{cache_.get(), shared_cache_.get()};
  if (ahead_ && tasks->name_decoded(*ahead_)) {
    tiers.decoded = ahead_.get();
    tiers.is_for_jobs = true;
  }
  auto requests =
      make_worker_requests(tasks, {staging_, scratch_, readers_.contexts(), share_, std::move(tiers)}, readers_);
  tasks->end_decoded();
  for (auto& request : requests) readers_.submit(std::move(request));
}

}  // namespace damacy
