#include "damacy/pipeline/worker_requests.h"

#include <algorithm>
#include <exception>

#include "damacy/pipeline/chunk_reads.h"
#include "damacy/pipeline/place.h"

namespace damacy {
namespace {

constexpr std::size_t kFillsATask = 64;

// Decodes a chunk while it is hot and copies it into the rows that want it.
class ChunkPlacer final : public ChunkSink {
 public:
  ChunkPlacer(std::shared_ptr<ChunkTasks> tasks, const WorkerMemory& memory)
      : tasks_(std::move(tasks)), memory_(memory) {}

  ChunkTasks& tasks() noexcept override { return *tasks_; }
  Arena& staging() noexcept override { return memory_.staging; }

  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
            std::span<const ByteRange> available, std::stop_token stop) noexcept override {
    try {
      return decode(thread, chunk, packed, available, std::move(stop));
    } catch (...) {
      tasks_->fail_chunk(chunk, current_error());
      return true;
    }
  }

 private:
  bool decode(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
              std::span<const ByteRange> available, std::stop_token stop) {
    const ArrayMetadata& metadata = tasks_->array_of(tasks_->shard_of(chunk)).metadata();
    if (metadata.codecs.is_raw()) {
      tasks_->count_decode({}, packed.size(), packed.size());
      place(chunk, packed);
      return true;
    }
    const Arena::Piece scratch = memory_.scratch.take(metadata.chunk_bytes(), std::move(stop));
    const std::vector<ByteRange> needed = tasks_->needed_bytes(chunk);
    const Stopwatch watch;
    DecodeContext& context = memory_.contexts[thread];
    const DecodeResult result =
        available.empty() ? metadata.codecs.decode(packed, scratch.bytes(), needed, context)
                          : metadata.codecs.decode_partial(packed, available, scratch.bytes(), needed, context);
    if (result.status == DecodeStatus::need_more && !available.empty()) return false;
    tasks_->count_decode(watch.elapsed(), packed.size(), metadata.chunk_bytes());
    if (result.ok())
      place(chunk, scratch.bytes());
    else
      tasks_->fail_chunk(chunk, result);
    return true;
  }

  void place(std::size_t chunk, std::span<const std::byte> decoded) {
    const Stopwatch watch;
    const Box box = tasks_->box_of(chunk);
    std::int64_t elements = 0;
    for (const std::uint32_t row : tasks_->rows_of(chunk)) {
      const Box part = wanted(tasks_->job(), row, box);
      place_chunk(tasks_->job(), row, box, part, decoded);
      elements += *product(part.extents().span());
    }
    tasks_->count_placed(watch.elapsed(), chunk, elements, true);
  }

  std::shared_ptr<ChunkTasks> tasks_;
  WorkerMemory memory_;
};

// Chunks that are absent: their part of the rows is fill.
class FillTask final : public Request {
 public:
  FillTask(std::shared_ptr<ChunkTasks> tasks, std::vector<std::uint32_t> chunks)
      : tasks_(std::move(tasks)), chunks_(std::move(chunks)) {
    tasks_->open_task();
  }
  ~FillTask() override { tasks_->close_task(); }
  Part prepare(std::size_t, std::stop_token) override { return {}; }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    for (const std::uint32_t chunk : chunks_) {
      if (failure != nullptr)
        tasks_->fail_chunk(chunk, *failure);
      else
        fill(chunk);
    }
  }

 private:
  void fill(std::uint32_t chunk) noexcept {
    BatchJob& job = tasks_->job();
    for (const std::uint32_t row : tasks_->rows_of(chunk)) {
      try {
        place_fill(job, row, relative_to(wanted(job, row, tasks_->box_of(chunk)), job.rows()[row].box));
      } catch (...) {
        job.fail(row, current_error());
      }
    }
  }

  std::shared_ptr<ChunkTasks> tasks_;
  std::vector<std::uint32_t> chunks_;
};

}  // namespace

std::vector<std::unique_ptr<Request>> make_worker_requests(const std::shared_ptr<ChunkTasks>& tasks,
                                                           const WorkerMemory& memory) {
  std::vector<std::unique_ptr<Request>> requests;
  const auto sink = std::make_shared<ChunkPlacer>(tasks, memory);
  const ChunkReads reads = find_reads(*tasks);
  for (const ChunkRun& run : reads.runs) requests.push_back(std::make_unique<ChunkRunRead>(sink, run));
  for (const std::uint32_t chunk : reads.partial) requests.push_back(std::make_unique<PartialRead>(sink, chunk));
  for (std::size_t i = 0; i < reads.missing.size(); i += kFillsATask) {
    const auto first = reads.missing.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last =
        reads.missing.begin() + static_cast<std::ptrdiff_t>(std::min(i + kFillsATask, reads.missing.size()));
    requests.push_back(std::make_unique<FillTask>(tasks, std::vector<std::uint32_t>(first, last)));
  }
  return requests;
}

}  // namespace damacy
