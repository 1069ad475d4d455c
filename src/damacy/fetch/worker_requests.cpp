#include "damacy/fetch/worker_requests.h"

#include <algorithm>

#include "damacy/batch/place.h"
#include "damacy/fetch/chunk_reads.h"

namespace damacy {
namespace {

constexpr std::size_t kFillsATask = 64;

// Decodes a chunk while it is in cache and copies it into the rows that use it, of every batch that joined.
class ChunkPlacer final : public ChunkSink {
 public:
  ChunkPlacer(std::shared_ptr<ChunkTasks> tasks, const WorkerMemory& memory)
      : tasks_(std::move(tasks)), memory_(memory) {}

  ChunkTasks& tasks() noexcept override { return *tasks_; }
  Arena& staging() noexcept override { return memory_.staging; }

  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
            std::span<const ByteRange> available, std::stop_token stop) noexcept override {
    const std::vector<ChunkConsumer> joined = joined_to(chunk);
    try {
      return decode(thread, chunk, joined, packed, available, std::move(stop));
    } catch (...) {
      fail(chunk, joined, current_error());
      return true;
    }
  }

  void fail_read(std::size_t chunk, const Error& why) noexcept override { fail(chunk, joined_to(chunk), why); }

 private:
  // Chunks of other batches that wait for this one. No batch can join after this.
  std::vector<ChunkConsumer> joined_to(std::size_t chunk) noexcept {
    return memory_.share.claim(ChunkShare::key_of(*tasks_, static_cast<std::uint32_t>(chunk)));
  }

  // This batch first, then those who joined.
  template <class Each>
  void each_consumer(std::size_t chunk, std::span<const ChunkConsumer> joined, Each each) {
    each(*tasks_, static_cast<std::uint32_t>(chunk), ChunkTasks::Decode::on_host);
    for (const ChunkConsumer& consumer : joined) each(consumer.tasks(), consumer.chunk(), ChunkTasks::Decode::joined);
  }

  void fail(std::size_t chunk, std::span<const ChunkConsumer> joined, const Error& why) noexcept {
    const auto fail_each = [&](ChunkTasks& tasks, std::uint32_t which, ChunkTasks::Decode) {
      tasks.fail_chunk(which, why);
    };
    each_consumer(chunk, joined, fail_each);
  }

  bool decode(std::size_t thread, std::size_t chunk, std::span<const ChunkConsumer> joined,
              std::span<const std::byte> packed, std::span<const ByteRange> available, std::stop_token stop) {
    const ArrayMetadata& metadata = tasks_->array_of(tasks_->shard_of(chunk)).metadata();
    if (metadata.codecs.is_raw()) {
      tasks_->count_decode({}, packed.size(), packed.size());
      place(chunk, joined, packed);
      return true;
    }
    const Arena::Piece scratch = memory_.scratch.take(metadata.chunk_bytes(), std::move(stop));
    std::vector<ByteRange> needed;
    each_consumer(chunk, joined, [&](ChunkTasks& tasks, std::uint32_t which, ChunkTasks::Decode) {
      const auto more = tasks.needed_bytes(which);
      needed.insert(needed.end(), more.begin(), more.end());
    });
    merge_ranges(needed);
    const DecodeResult result =
        decode_chunk(*tasks_, chunk, packed, available, needed, scratch.bytes(), memory_.contexts[thread]);
    if (result.status == DecodeStatus::need_more && !available.empty()) return false;
    if (result.ok())
      place(chunk, joined, scratch.bytes());
    else
      each_consumer(chunk, joined, [&](ChunkTasks& tasks, std::uint32_t which, ChunkTasks::Decode) {
        tasks.fail_chunk(which, result);
      });
    return true;
  }

  void place(std::size_t chunk, std::span<const ChunkConsumer> joined, std::span<const std::byte> decoded) {
    each_consumer(chunk, joined, [&](ChunkTasks& tasks, std::uint32_t which, ChunkTasks::Decode how) {
      const Stopwatch watch;
      const Box box = tasks.box_of(which);
      std::int64_t elements = 0;
      for (const std::uint32_t row : tasks.rows_of(which)) {
        const Box part = wanted(tasks.job(), row, box);
        place_chunk(tasks.job(), row, box, part, decoded);
        elements += *product(part.extents().span());
      }
      tasks.count_placed(watch.elapsed(), which, elements, how);
    });
  }

  std::shared_ptr<ChunkTasks> tasks_;
  WorkerMemory memory_;
};

// Chunks that are absent: their part of the rows is fill.
class FillTask final : public Request {
 public:
  FillTask(std::shared_ptr<ChunkTasks> tasks, std::vector<std::uint32_t> chunks)
      : tasks_(std::move(tasks)), chunks_(std::move(chunks)) {}
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
      const auto failure = failure_of(
          [&] { place_fill(job, row, relative_to(wanted(job, row, tasks_->box_of(chunk)), job.rows()[row].box)); });
      if (failure) job.fail(row, *failure);
    }
  }

  const Task<ChunkTasks> tasks_;
  std::vector<std::uint32_t> chunks_;
};

}  // namespace

std::vector<std::unique_ptr<Request>> make_worker_requests(const std::shared_ptr<ChunkTasks>& tasks,
                                                           const WorkerMemory& memory) {
  std::vector<std::unique_ptr<Request>> requests;
  const auto sink = std::make_shared<ChunkPlacer>(tasks, memory);
  const ChunkReads reads =
      find_reads(*tasks, tasks->plan(), [&](std::uint32_t chunk) { return memory.share.join(tasks, chunk); });
  for (const std::uint32_t chunk : reads.partial) requests.push_back(std::make_unique<PartialRead>(sink, chunk));
  for (std::size_t i = 0; i < reads.missing.size(); i += kFillsATask) {
    const auto first = reads.missing.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last =
        reads.missing.begin() + static_cast<std::ptrdiff_t>(std::min(i + kFillsATask, reads.missing.size()));
    requests.push_back(std::make_unique<FillTask>(tasks, std::vector<std::uint32_t>(first, last)));
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
