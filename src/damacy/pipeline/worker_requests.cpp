#include "damacy/pipeline/worker_requests.h"

#include <algorithm>
#include <exception>

#include "damacy/pipeline/chunk_reads.h"
#include "damacy/pipeline/place.h"

namespace damacy {
namespace {

constexpr std::size_t kFillsATask = 64;

// Decodes a chunk while it is hot and copies it into the rows that want it, of every batch that joined.
class ChunkPlacer final : public ChunkSink {
 public:
  ChunkPlacer(std::shared_ptr<ChunkTasks> tasks, const WorkerMemory& memory)
      : tasks_(std::move(tasks)), memory_(memory) {}

  ChunkTasks& tasks() noexcept override { return *tasks_; }
  Arena& staging() noexcept override { return memory_.staging; }

  void fail(std::size_t chunk, const Error& error) noexcept override {
    for (const ChunkConsumer& consumer : consumers_of(chunk)) consumer.tasks().fail_chunk(consumer.chunk(), error);
  }

  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
            std::span<const ByteRange> available, std::stop_token stop) noexcept override {
    const std::vector<ChunkConsumer> consumers = consumers_of(chunk);
    try {
      return decode(thread, consumers, packed, available, std::move(stop));
    } catch (...) {
      const Error error = current_error();
      for (const ChunkConsumer& consumer : consumers) consumer.tasks().fail_chunk(consumer.chunk(), error);
      return true;
    }
  }

 private:
  // This batch first, then those who joined; nobody can join any more.
  std::vector<ChunkConsumer> consumers_of(std::size_t chunk) noexcept {
    std::vector<ChunkConsumer> consumers;
    consumers.emplace_back(tasks_, static_cast<std::uint32_t>(chunk));
    auto joined = memory_.share.claim(ChunkShare::key_of(*tasks_, static_cast<std::uint32_t>(chunk)));
    for (ChunkConsumer& consumer : joined) consumers.push_back(std::move(consumer));
    return consumers;
  }

  bool decode(std::size_t thread, std::span<const ChunkConsumer> consumers, std::span<const std::byte> packed,
              std::span<const ByteRange> available, std::stop_token stop) {
    const ArrayMetadata& metadata = tasks_->array_of(tasks_->shard_of(consumers.front().chunk())).metadata();
    if (metadata.codecs.is_raw()) {
      tasks_->count_decode({}, packed.size(), packed.size());
      place(consumers, packed);
      return true;
    }
    const Arena::Piece scratch = memory_.scratch.take(metadata.chunk_bytes(), std::move(stop));
    std::vector<ByteRange> needed;
    for (const ChunkConsumer& consumer : consumers) {
      const auto more = consumer.tasks().needed_bytes(consumer.chunk());
      needed.insert(needed.end(), more.begin(), more.end());
    }
    merge_ranges(needed);
    const DecodeResult result = decode_chunk(*tasks_, consumers.front().chunk(), packed, available, needed,
                                             scratch.bytes(), memory_.contexts[thread]);
    if (result.status == DecodeStatus::need_more && !available.empty()) return false;
    if (result.ok())
      place(consumers, scratch.bytes());
    else
      for (const ChunkConsumer& consumer : consumers) consumer.tasks().fail_chunk(consumer.chunk(), result);
    return true;
  }

  void place(std::span<const ChunkConsumer> consumers, std::span<const std::byte> decoded) {
    for (const ChunkConsumer& consumer : consumers) {
      const Stopwatch watch;
      ChunkTasks& tasks = consumer.tasks();
      const Box box = tasks.box_of(consumer.chunk());
      std::int64_t elements = 0;
      for (const std::uint32_t row : tasks.rows_of(consumer.chunk())) {
        const Box part = wanted(tasks.job(), row, box);
        place_chunk(tasks.job(), row, box, part, decoded);
        elements += *product(part.extents().span());
      }
      const bool first = &consumer == consumers.data();
      tasks.count_placed(watch.elapsed(), consumer.chunk(), elements,
                         first ? ChunkTasks::Decode::on_host : ChunkTasks::Decode::joined);
    }
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
  const ChunkReads reads = find_reads(*tasks, [&](std::uint32_t chunk) { return memory.share.join(tasks, chunk); });
  for (const ChunkRun& run : reads.runs) {
    for (const std::uint32_t chunk : run.chunks) memory.share.announce(ChunkShare::key_of(*tasks, chunk));
    requests.push_back(std::make_unique<ChunkRunRead>(sink, run));
  }
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
