#include "damacy/fetch/worker_requests.h"

#include <algorithm>

#include "damacy/fetch/cached_chunks.h"
#include "damacy/fetch/chunk_tasks.h"
#include "damacy/fetch/host_sink.h"

namespace damacy {
namespace {

constexpr std::size_t kFillsATask = 64;
// Of cached chunks that one request places: many small ones, few large ones.
constexpr std::size_t kCachedATask = 64;
constexpr std::size_t kCachedBytesATask = 512 << 10;
// Neighbours write the same rows, and so belong in one request.
constexpr std::size_t kNeighboursBytesATask = 4 << 20;

// For rows of this batch, and of other batches that joined.
class RowSink final : public HostSink {
 public:
  RowSink(const std::shared_ptr<ChunkTasks>& tasks, const WorkerMemory& memory)
      : HostSink(tasks, {memory.staging, memory.scratch, memory.contexts}),
        tasks_(*tasks),
        share_(memory.share),
        cached_(*tasks, memory.cache) {}

  CachedChunks& cached() noexcept { return cached_; }
  const ChunkTasks& tasks() const noexcept { return tasks_; }
  bool wants_whole(std::size_t chunk) const noexcept override { return cached_.may_be_kept(chunk); }

 private:
  std::vector<ChunkConsumer> joined_to(std::size_t chunk) noexcept override {
    return share_.claim(ChunkShare::key_of(tasks_, static_cast<std::uint32_t>(chunk)));
  }
  ChunkCache::Filling reserve(std::size_t chunk) override { return cached_.reserve(chunk); }
  ChunkTasks& tasks_;
  ChunkShare& share_;
  CachedChunks cached_;
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

struct CachedChunk {
  std::uint32_t chunk;
  ChunkCache::Hold hold;
};

// Chunks that were decoded earlier: only placed.
class CachedTask final : public Request {
 public:
  explicit CachedTask(const std::shared_ptr<HostSink>& sink) : task_(sink->chunks().new_task()), sink_(sink) {}
  void add(CachedChunk cached) {
    bytes_ += cached.hold.bytes().size();
    chunks_.push_back({cached.chunk, cached.hold.bytes()});
    holds_.push_back(std::move(cached.hold));
  }
  bool is_full(bool before_neighbour) const noexcept {
    return chunks_.size() >= kCachedATask || bytes_ >= (before_neighbour ? kNeighboursBytesATask : kCachedBytesATask);
  }
  Part prepare(std::size_t, std::stop_token) override { return {}; }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    if (failure == nullptr) return sink_->place_cached(chunks_);
    for (const HostSink::Decoded& cached : chunks_) sink_->chunks().fail_chunk(cached.chunk, *failure);
  }

 private:
  const Task<Job> task_;  // ends after all below
  const std::shared_ptr<HostSink> sink_;
  std::vector<ChunkCache::Hold> holds_;
  std::vector<HostSink::Decoded> chunks_;
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

}  // namespace

std::vector<std::unique_ptr<Request>> make_worker_requests(const std::shared_ptr<ChunkTasks>& tasks,
                                                           const WorkerMemory& memory) {
  std::vector<std::unique_ptr<Request>> requests;
  const auto sink = std::make_shared<RowSink>(tasks, memory);
  std::vector<CachedChunk> cached;
  const ChunkReads reads = find_reads(*tasks, [&](std::uint32_t chunk) {
    if (auto hold = sink->cached().find(chunk)) {
      cached.push_back({chunk, std::move(*hold)});
      return true;
    }
    return memory.share.join(tasks, chunk);
  });
  add_cached(std::move(cached), sink, requests);
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
      for (const std::uint32_t chunk : run.chunks) memory.share.announce(ChunkShare::key_of(*tasks, chunk));
  } catch (...) {
    for (const ChunkRun& run : reads.runs)
      for (const std::uint32_t chunk : run.chunks) sink->fail_read(chunk, current_error());
    throw;
  }
  return requests;
}

}  // namespace damacy
