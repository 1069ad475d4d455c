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

// For rows of this batch, and of other batches that joined.
class RowSink final : public HostSink {
 public:
  RowSink(const std::shared_ptr<ChunkTasks>& tasks, const WorkerMemory& memory)
      : HostSink(tasks, {memory.staging, memory.scratch, memory.contexts}),
        tasks_(*tasks),
        share_(memory.share),
        cached_(*tasks, memory.cache) {}

  CachedChunks& cached() noexcept { return cached_; }
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
  void add(CachedChunk chunk) {
    bytes_ += chunk.hold.bytes().size();
    chunks_.push_back(std::move(chunk));
  }
  bool is_full() const noexcept { return chunks_.size() >= kCachedATask || bytes_ >= kCachedBytesATask; }
  Part prepare(std::size_t, std::stop_token) override { return {}; }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    for (const CachedChunk& cached : chunks_) {
      if (failure != nullptr)
        sink_->chunks().fail_chunk(cached.chunk, *failure);
      else
        sink_->place_cached(cached.chunk, cached.hold.bytes());
    }
  }

 private:
  const Task<Job> task_;  // ends after all below
  const std::shared_ptr<HostSink> sink_;
  std::vector<CachedChunk> chunks_;
  std::size_t bytes_ = 0;
};

void add_cached(std::vector<CachedChunk> chunks, const std::shared_ptr<HostSink>& sink,
                std::vector<std::unique_ptr<Request>>& requests) {
  std::unique_ptr<CachedTask> task;
  for (CachedChunk& chunk : chunks) {
    if (!task) task = std::make_unique<CachedTask>(sink);
    task->add(std::move(chunk));
    if (task->is_full()) requests.push_back(std::move(task));
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
