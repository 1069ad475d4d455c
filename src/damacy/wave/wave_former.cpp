#include "damacy/wave/wave_former.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "damacy/batch/place.h"
#include "damacy/core/error.h"
#include "damacy/wave/slab_read.h"
#include "damacy/wave/stage_chunk.h"

namespace damacy {
namespace {

// Staging memory that readers fill and a device empties again and again stays in the processor's cache when there is
// little of it: then reading costs half the time, and the copies read no memory (docs/design/two-engines.md).
constexpr std::uint64_t kWarmStaging = 128 << 20;
constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

// Of a chunk that the host decodes again for each: with less staging memory than that, it fails.
constexpr std::uint64_t kPartsAtMost = 256;

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

ChunkRun run_of(const ChunkTasks& tasks, std::uint32_t chunk) {
  return {tasks.where(chunk).offset, tasks.where(chunk).bytes, {chunk}};
}

// Two reads, of its first chunks and of the others.
std::array<ChunkRun, 2> halves_of(const ChunkTasks& tasks, const ChunkRun& run) {
  std::array<ChunkRun, 2> halves;
  const std::size_t middle = run.chunks.size() / 2;
  for (std::size_t i = 0; i < run.chunks.size(); ++i) {
    const ChunkPlace& where = tasks.where(run.chunks[i]);
    ChunkRun& half = halves[i < middle ? 0 : 1];
    if (half.chunks.empty()) half.offset = where.offset;
    half.bytes = std::max(half.bytes, where.offset + where.bytes - half.offset);
    half.chunks.push_back(run.chunks[i]);
  }
  return halves;
}

}  // namespace

// Decodes chunks on the reader and puts what rows want of them into staging memory.
class CropSink final : public ChunkSink {
 public:
  using Crops = WaveFormer::Crops;

  CropSink(std::shared_ptr<Wave> wave, std::shared_ptr<ChunkTasks> tasks, Crops crops, const HostDecodeMemory& memory)
      : wave_(std::move(wave)), tasks_(std::move(tasks)), crops_(std::move(crops)), memory_(memory) {}
  ~CropSink() override { end(); }
  void end() noexcept override {
    for (auto& [number, of_chunk] : crops_)
      if (!of_chunk.done) of_chunk.staged->failed = true;
    crops_.clear();
  }

  ChunkTasks& tasks() noexcept override { return *tasks_; }
  Arena& staging() noexcept override { return memory_.packed; }

  void fail_read(std::size_t chunk, const Error& why) noexcept override { tasks_->fail_chunk(chunk, why); }

  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
            std::span<const ByteRange> available, std::stop_token stop) noexcept override {
    try {
      return decode(thread, static_cast<std::uint32_t>(chunk), packed, available, std::move(stop));
    } catch (const std::exception&) {
      tasks_->fail_chunk(chunk, current_error());
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
      crop_chunk(array, box, one.part, decoded, one.staged.memory());
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

// A slot still has the list of its last wave: what that one shows of the next.
void WaveFormer::start_wave() {
  seal();
  auto slot = slots_.acquire(stop_);
  if (!slot) throw Error(Status::shutdown, "stopped while waiting for a wave", "closed");
  frame_room_.learn((*slot)->frames->fill(), (*slot)->described_bytes);
  wave_ = std::make_shared<Wave>(std::move(*slot), staging_, watcher_);
}

// A compressed chunk has one frame at least. Where more show only when it is read, and there are too many, the host
// decodes it.
bool WaveFormer::frames_fit(const Need& need) const {
  return wave_->to_decode() + need.chunks <= wave_->slot().frames->most_frames() &&
         wave_->decoded_bytes() + need.decoded <= frame_room_.bytes();
}

bool WaveFormer::make_room(const Need& need, std::uint64_t most_lent) {
  if (!wave_ || !wave_->fits(need.staged, need.decoded) || !frames_fit(need) || wave_->staged() >= enough_) {
    if (!wave_ || !wave_->empty()) start_wave();
    if (!wave_->fits(need.staged, need.decoded)) return false;
  }
  if (!wave_->can_reserve(need.staged)) return false;
  wave_->reserve(need.staged, most_lent, stop_);
  return true;
}

// What cannot be made smaller.
void WaveFormer::require_room(std::uint64_t staged) {
  if (!make_room({staged}, kUnlimited)) wave_->reserve(staged, kUnlimited, stop_);
}

// Chunks fail if hung reads leave no memory for them; other chunks continue.
template <class Add>
void WaveFormer::add_some(ChunkTasks& tasks, std::span<const std::uint32_t> chunks, Add add) {
  try {
    add();
  } catch (const Error& error) {
    if (error.where().reason != "deadline") throw;
    for (const std::uint32_t chunk : chunks) tasks.fail_chunk(chunk, error);
  }
}

void WaveFormer::add(const std::shared_ptr<ChunkTasks>& tasks, std::uint64_t device_from_bytes, std::stop_token stop) {
  stop_ = std::move(stop);
  ChunkReads reads = find_reads(*tasks, tasks->plan(), [](std::uint32_t) { return false; });
  std::uint64_t decoded = 0, staged = 0;
  for (const ChunkRun& run : reads.runs) {
    staged += Wave::padded(run.bytes);
    for (const std::uint32_t chunk : run.chunks)
      decoded += tasks->array_of(tasks->shard_of(chunk)).metadata().chunk_bytes();
  }
  const bool by_device = decoded >= device_from_bytes;
  // A batch that needs several waves gets waves of its own, of equal sizes, so that batches finish at even intervals.
  const bool several = by_device && staged >= slab_bytes_;
  enough_ = several ? staged / ceil_div(staged, slab_bytes_) + 1 : kUnlimited;
  if (several) seal();
  for (const ChunkRun& run : reads.runs) {
    add_some(*tasks, run.chunks, [&] {
      if (by_device && fits_device(*tasks, run))
        add_device_run(tasks, run);
      else
        add_host_run(tasks, run, false);
    });
  }
  for (const std::uint32_t& chunk : reads.partial)
    add_some(*tasks, {&chunk, 1}, [&] { add_host_run(tasks, run_of(*tasks, chunk), true); });
  for (const std::uint32_t& chunk : reads.missing) add_some(*tasks, {&chunk, 1}, [&] { add_fill_of(tasks, chunk); });
  if (several) seal();
}

bool WaveFormer::fits_device(const ChunkTasks& tasks, const ChunkRun& run) const {
  return device_decodes(tasks.array_of(tasks.shard_of(run.chunks.front())).metadata().codecs);
}

void WaveFormer::add_device_run(const std::shared_ptr<ChunkTasks>& tasks, const ChunkRun& run) {
  const std::uint64_t decoded = tasks->array_of(tasks->shard_of(run.chunks.front())).metadata().chunk_bytes();
  const Need need{Wave::padded(run.bytes), Wave::padded(decoded) * run.chunks.size(), run.chunks.size()};
  if (!make_room(need, kWarmStaging)) return add_host_run(tasks, run, false);
  if (run.chunks.size() > 1 && !frames_fit(need)) {
    for (const ChunkRun& half : halves_of(*tasks, run))
      add_some(*tasks, half.chunks, [&] { add_device_run(tasks, half); });
    return;
  }
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
  readers_.submit(std::make_unique<SlabRead>(wave_, tasks, run, std::move(range), std::move(chunks)));
}

void WaveFormer::add_host_run(const std::shared_ptr<ChunkTasks>& tasks, const ChunkRun& run, bool partial) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t chunk : run.chunks)
    for (const std::uint32_t row : tasks->rows_of(chunk))
      bytes += Wave::padded(bytes_of_part(*tasks, chunk, wanted(tasks->job(), row, tasks->box_of(chunk))));
  if (make_room({bytes}, kUnlimited)) {
    Crops crops;
    for (const std::uint32_t chunk : run.chunks)
      for (const std::uint32_t row : tasks->rows_of(chunk))
        add_crop_of(tasks, chunk, row, wanted(tasks->job(), row, tasks->box_of(chunk)), crops);
    return read_on_host(tasks, run, partial, std::move(crops));
  }
  if (run.chunks.size() > 1) {
    for (const std::uint32_t& chunk : run.chunks)
      add_some(*tasks, {&chunk, 1}, [&] { add_host_run(tasks, run_of(*tasks, chunk), false); });
    return;
  }
  // The needed part of this chunk does not fit a wave: it is divided, and each part has its own read and decode.
  const std::uint32_t chunk = run.chunks.front();
  const std::uint64_t decoded = tasks->metadata_of(chunk).chunk_bytes();
  const std::uint64_t most = std::min<std::uint64_t>(
      std::min(wave_->slot().source.size(), staging_.size()) / 2,
      std::max<std::uint64_t>({staging_.lendable() / 2, decoded / kPartsAtMost, Wave::kAlignment}));
  for (const std::uint32_t row : tasks->rows_of(chunk)) {
    std::vector<Box> parts;
    split_part(*tasks, chunk, wanted(tasks->job(), row, tasks->box_of(chunk)), most, parts);
    for (const Box& part : parts) {
      Crops crops;
      require_room(Wave::padded(bytes_of_part(*tasks, chunk, part)));
      add_crop_of(tasks, chunk, row, part, crops);
      read_on_host(tasks, run, partial, std::move(crops));
    }
  }
}

void WaveFormer::add_crop_of(const std::shared_ptr<ChunkTasks>& tasks, std::uint32_t chunk, std::uint32_t row,
                             const Box& part, Crops& crops) {
  auto& [staged, list, done] = crops[chunk];
  if (staged == nullptr) staged = &wave_->add(tasks, chunk);
  list.push_back({row, part, wave_->stage(bytes_of_part(*tasks, chunk, part))});
  staged->placed.emplace_back(row, *product(part.extents().span()));
}

void WaveFormer::read_on_host(const std::shared_ptr<ChunkTasks>& tasks, const ChunkRun& run, bool partial,
                              Crops crops) {
  if (crops.empty()) return;
  auto sink = std::make_shared<CropSink>(wave_, tasks, std::move(crops), host_);
  if (partial)
    readers_.submit(std::make_unique<PartialRead>(std::move(sink), run.chunks.front()));
  else
    readers_.submit(std::make_unique<ChunkRunRead>(std::move(sink), run));
}

void WaveFormer::add_fill_of(const std::shared_ptr<ChunkTasks>& tasks, std::uint32_t chunk) {
  const ArrayMetadata& metadata = tasks->array_of(tasks->shard_of(chunk)).metadata();
  require_room(Wave::padded(sizeof metadata.fill));
  StagedChunk& staged = wave_->add(tasks, chunk);
  staged.is_fill = true;
  const StagedRange range = wave_->stage(sizeof metadata.fill);
  staged.staged_at = range.begin();
  std::memcpy(range.memory().data(), metadata.fill.data(), sizeof metadata.fill);
  BatchJob& job = tasks->job();
  for (const std::uint32_t row : tasks->rows_of(chunk)) {
    const Box part = wanted(job, row, tasks->box_of(chunk));
    add_fill(staged.share->placements, job, row, relative_to(part, job.rows()[row].box),
             wave_->source_address(staged.staged_at));
    staged.placed.emplace_back(row, *product(part.extents().span()));
  }
}

}  // namespace damacy
