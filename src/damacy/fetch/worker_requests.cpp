#include "damacy/fetch/worker_requests.h"

#include <algorithm>

#include "damacy/fetch/chunk_tasks.h"
#include "damacy/fetch/host_sink.h"

namespace damacy {
namespace {

constexpr std::size_t kFillsATask = 64;

// For rows of this batch, and of other batches that joined.
class RowSink final : public HostSink {
 public:
  RowSink(const std::shared_ptr<ChunkTasks>& tasks, const WorkerMemory& memory)
      : HostSink(tasks, {memory.staging, memory.scratch, memory.contexts}), tasks_(*tasks), share_(memory.share) {}

 private:
  std::vector<ChunkConsumer> joined_to(std::size_t chunk) noexcept override {
    return share_.claim(ChunkShare::key_of(tasks_, static_cast<std::uint32_t>(chunk)));
  }
  ChunkTasks& tasks_;
  ChunkShare& share_;
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

}  // namespace

std::vector<std::unique_ptr<Request>> make_worker_requests(const std::shared_ptr<ChunkTasks>& tasks,
                                                           const WorkerMemory& memory) {
  std::vector<std::unique_ptr<Request>> requests;
  const auto sink = std::make_shared<RowSink>(tasks, memory);
  const ChunkReads reads = find_reads(*tasks, [&](std::uint32_t chunk) { return memory.share.join(tasks, chunk); });
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
