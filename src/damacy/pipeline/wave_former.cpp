#include "damacy/pipeline/wave_former.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "damacy/core/error.h"
#include "damacy/pipeline/place.h"
#include "damacy/pipeline/stage_chunk.h"

namespace damacy {
namespace {

// Reads a run of chunks into the wave's slab, where a device finds them, and describes their frames.
class SlabRead final : public Request {
 public:
  SlabRead(std::shared_ptr<Wave> wave, std::shared_ptr<ChunkTasks> tasks, ChunkRun run, StagedRange staged,
           std::vector<StagedChunk*> chunks)
      : wave_(std::move(wave)),
        tasks_(std::move(tasks)),
        run_(std::move(run)),
        staged_(std::move(staged)),
        chunks_(std::move(chunks)) {
    tasks_->job().open_read();
  }

  Part prepare(std::size_t, std::stop_token) override {
    watch_ = {};
    return {tasks_->object_of(tasks_->shard_of(run_.chunks.front())), run_.offset,
            wave_->slot().slab.bytes().subspan(staged_.begin(), run_.bytes)};
  }

  bool only_reads() const noexcept override { return true; }
  void complete(std::size_t, const Part& part, const Error* failure) noexcept override {
    tasks_->job().close_read();
    if (failure == nullptr) {
      std::uint64_t wanted = 0;
      for (const StagedChunk* chunk : chunks_) wanted += chunk->staged_bytes;
      count_read(tasks_->board(), watch_.elapsed(), run_.bytes, wanted);
    }
    for (StagedChunk* chunk : chunks_) {
      try {
        if (failure != nullptr) read_again(part, *chunk, *failure);
        stage_chunk(*wave_, *chunk, wave_->slot().slab.bytes().subspan(chunk->staged_at, chunk->staged_bytes));
      } catch (...) {
        chunk->failed = true;
        tasks_->fail_chunk_in_flight(chunk->chunk);
      }
    }
  }

 private:
  // A merged read fails as a whole; the chunks that can be read must not suffer for the one that cannot.
  void read_again(const Part& part, const StagedChunk& chunk, const Error& failure) {
    if (chunks_.size() == 1 || !part.object || failure.status() != Status::io) throw Error(failure);
    part.object->read_exact(tasks_->where(chunk.chunk).offset,
                            wave_->slot().slab.bytes().subspan(chunk.staged_at, chunk.staged_bytes));
  }

  std::shared_ptr<Wave> wave_;
  std::shared_ptr<ChunkTasks> tasks_;
  ChunkRun run_;
  StagedRange staged_;
  std::vector<StagedChunk*> chunks_;
  Stopwatch watch_;
};

std::uint64_t bytes_of_part(const ChunkTasks& tasks, std::uint32_t chunk, const Box& part) {
  return static_cast<std::uint64_t>(*product(part.extents().span())) *
         size_of(tasks.array_of(tasks.shard_of(chunk)).metadata().dtype);
}

// Halves along the longest axis until every piece has at most `most` bytes.
void split_part(const ChunkTasks& tasks, std::uint32_t chunk, const Box& part, std::uint64_t most,
                std::vector<Box>& pieces) {
  if (bytes_of_part(tasks, chunk, part) <= most) return pieces.push_back(part);
  std::size_t longest = 0;
  const Dims extents = part.extents();
  for (std::size_t i = 0; i < extents.size(); ++i)
    if (extents[i] > extents[longest]) longest = i;
  const std::int64_t middle = part.start[longest] + extents[longest] / 2;
  Box low{part.start, part.stop};
  Box high{part.start, part.stop};
  low.stop[longest] = middle;
  high.start[longest] = middle;
  split_part(tasks, chunk, low, most, pieces);
  split_part(tasks, chunk, high, most, pieces);
}

}  // namespace

// Decodes chunks on the reader and puts what rows want of them into the wave's slab.
class CropSink final : public ChunkSink {
 public:
  struct CropsOfChunk {
    StagedChunk* staged = nullptr;
    std::vector<WaveFormer::Crop> crops;
    bool done = false;
  };
  using Crops = std::map<std::uint32_t, CropsOfChunk>;

  CropSink(std::shared_ptr<Wave> wave, std::shared_ptr<ChunkTasks> tasks, Crops crops, const HostDecodeMemory& memory)
      : wave_(std::move(wave)), tasks_(std::move(tasks)), crops_(std::move(crops)), memory_(memory) {}
  ~CropSink() override {
    for (auto& [number, of_chunk] : crops_)
      if (!of_chunk.done) of_chunk.staged->failed = true;
  }

  ChunkTasks& tasks() noexcept override { return *tasks_; }
  Arena& staging() noexcept override { return memory_.packed; }

  void give_up(std::size_t chunk) noexcept override { tasks_->fail_chunk_in_flight(chunk); }

  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
            std::span<const ByteRange> available, std::stop_token stop) noexcept override {
    try {
      return decode(thread, static_cast<std::uint32_t>(chunk), packed, available, std::move(stop));
    } catch (...) {
      tasks_->fail_chunk_in_flight(chunk);
      return true;
    }
  }

 private:
  bool decode(std::size_t thread, std::uint32_t chunk, std::span<const std::byte> packed,
              std::span<const ByteRange> available, std::stop_token stop) {
    const ArrayMetadata& metadata = tasks_->array_of(tasks_->shard_of(chunk)).metadata();
    if (metadata.codecs.is_raw()) {
      crop(chunk, packed);
      return true;
    }
    const Arena::Piece decoded = memory_.decoded.take(metadata.chunk_bytes(), std::move(stop));
    const std::vector<ByteRange> needed = tasks_->needed_bytes(chunk);
    const DecodeResult result =
        decode_chunk(*tasks_, chunk, packed, available, needed, decoded.bytes(), memory_.contexts[thread]);
    if (result.status == DecodeStatus::need_more && !available.empty()) return false;
    if (result.ok())
      crop(chunk, decoded.bytes());
    else
      tasks_->fail_chunk(chunk, result);
    return true;
  }

  void crop(std::uint32_t chunk, std::span<const std::byte> decoded) {
    auto& [staged, crops, done] = crops_.at(chunk);
    const Array& array = tasks_->array_of(tasks_->shard_of(chunk));
    const Box box = tasks_->box_of(chunk);
    for (const WaveFormer::Crop& one : crops) {
      const std::uint64_t bytes = bytes_of_part(*tasks_, chunk, one.part);
      crop_chunk(array, box, one.part, decoded, wave_->slot().slab.bytes().subspan(one.staged.begin(), bytes));
      add_crop(staged->share->placements, *staged, one.row, one.part, wave_->source_address(one.staged.begin()));
    }
    done = true;
  }

  std::shared_ptr<Wave> wave_;
  std::shared_ptr<ChunkTasks> tasks_;
  Crops crops_;
  HostDecodeMemory memory_;
};

void WaveFormer::seal() {
  if (wave_ && !wave_->empty()) wave_->seal(sealed_++);
  wave_.reset();
}

bool WaveFormer::make_room(std::uint64_t staged, std::uint64_t decoded) {
  if (wave_ && wave_->fits(staged, decoded)) return true;
  if (!wave_ || !wave_->empty()) {
    seal();
    auto slot = slots_.acquire(stop_);
    if (!slot) throw Error(Status::shutdown, "stopped while waiting for a wave", "closed");
    wave_ = std::make_shared<Wave>(std::move(*slot), watcher_);
  }
  return wave_->fits(staged, decoded);
}

void WaveFormer::add(const std::shared_ptr<ChunkTasks>& tasks, std::uint64_t device_from_bytes, std::stop_token stop) {
  stop_ = std::move(stop);
  ChunkReads reads = find_reads(*tasks, [](std::uint32_t) { return false; });
  std::uint64_t decoded = 0;
  for (const ChunkRun& run : reads.runs)
    for (const std::uint32_t chunk : run.chunks)
      decoded += tasks->array_of(tasks->shard_of(chunk)).metadata().chunk_bytes();
  const bool by_device = decoded >= device_from_bytes;
  for (ChunkRun& run : reads.runs) {
    if (by_device && fits_device(*tasks, run))
      add_device_run(tasks, std::move(run));
    else
      add_host_run(tasks, run, false);
  }
  for (const std::uint32_t chunk : reads.partial)
    add_host_run(tasks, {tasks->where(chunk).offset, tasks->where(chunk).bytes, {chunk}}, true);
  for (const std::uint32_t chunk : reads.missing) add_fill_of(tasks, chunk);
}

bool WaveFormer::fits_device(const ChunkTasks& tasks, const ChunkRun& run) const {
  return device_decodes(tasks.array_of(tasks.shard_of(run.chunks.front())).metadata().codecs);
}

void WaveFormer::add_device_run(const std::shared_ptr<ChunkTasks>& tasks, ChunkRun run) {
  const std::uint64_t decoded = tasks->array_of(tasks->shard_of(run.chunks.front())).metadata().chunk_bytes();
  const std::uint64_t padded = decoded + Wave::kAlignment;
  if (!make_room(run.bytes, padded * run.chunks.size())) return add_host_run(tasks, run, false);
  StagedRange range = wave_->stage(run.bytes);
  std::vector<StagedChunk*> chunks;
  for (const std::uint32_t chunk : run.chunks) {
    StagedChunk& staged = wave_->add(tasks, chunk);
    staged.staged_at = range.begin() + (tasks->where(chunk).offset - run.offset);
    staged.staged_bytes = tasks->where(chunk).bytes;
    staged.decoded_at = wave_->decode(decoded);
    staged.by_device = true;
    for (const std::uint32_t row : tasks->rows_of(chunk))
      staged.placed.emplace_back(row, *product(wanted(tasks->job(), row, tasks->box_of(chunk)).extents().span()));
    chunks.push_back(&staged);
  }
  readers_.submit(std::make_unique<SlabRead>(wave_, tasks, std::move(run), std::move(range), std::move(chunks)));
}

void WaveFormer::add_host_run(const std::shared_ptr<ChunkTasks>& tasks, const ChunkRun& run, bool partial) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t chunk : run.chunks)
    for (const std::uint32_t row : tasks->rows_of(chunk))
      bytes += bytes_of_part(*tasks, chunk, wanted(tasks->job(), row, tasks->box_of(chunk))) + Wave::kAlignment;
  const bool whole = make_room(bytes, 0);
  if (!whole && run.chunks.size() > 1) {
    for (const std::uint32_t chunk : run.chunks)
      add_host_run(tasks, {tasks->where(chunk).offset, tasks->where(chunk).bytes, {chunk}}, false);
    return;
  }
  CropSink::Crops crops;
  const auto send = [&] {
    auto sink = std::make_shared<CropSink>(wave_, tasks, std::exchange(crops, {}), host_);
    if (partial)
      readers_.submit(std::make_unique<PartialRead>(std::move(sink), run.chunks.front()));
    else
      readers_.submit(std::make_unique<ChunkRunRead>(std::move(sink), run));
  };
  for (const std::uint32_t chunk : run.chunks) {
    for (const std::uint32_t row : tasks->rows_of(chunk)) {
      std::vector<Box> parts;
      split_part(*tasks, chunk, wanted(tasks->job(), row, tasks->box_of(chunk)), wave_->slot().slab.size(), parts);
      for (const Box& part : parts) {
        const std::uint64_t size = bytes_of_part(*tasks, chunk, part);
        if (!wave_->fits(size, 0)) {  // only a chunk by itself, whose parts go in several waves
          if (!crops.empty()) send();
          make_room(size, 0);
        }
        auto& [staged, list, done] = crops[chunk];
        if (staged == nullptr) staged = &wave_->add(tasks, chunk);
        list.push_back({row, part, wave_->stage(size)});
        staged->placed.emplace_back(row, *product(part.extents().span()));
      }
    }
  }
  if (!crops.empty()) send();
}

void WaveFormer::add_fill_of(const std::shared_ptr<ChunkTasks>& tasks, std::uint32_t chunk) {
  const ArrayMetadata& metadata = tasks->array_of(tasks->shard_of(chunk)).metadata();
  make_room(sizeof metadata.fill, 0);
  StagedChunk& staged = wave_->add(tasks, chunk);
  staged.is_fill = true;
  const StagedRange range = wave_->stage(sizeof metadata.fill);
  staged.staged_at = range.begin();
  std::memcpy(wave_->slot().slab.data() + staged.staged_at, metadata.fill.data(), sizeof metadata.fill);
  BatchJob& job = tasks->job();
  for (const std::uint32_t row : tasks->rows_of(chunk)) {
    const Box part = wanted(job, row, tasks->box_of(chunk));
    add_fill(staged.share->placements, job, row, relative_to(part, job.rows()[row].box),
             wave_->source_address(staged.staged_at));
    staged.placed.emplace_back(row, *product(part.extents().span()));
  }
}

}  // namespace damacy
