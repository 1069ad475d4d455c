#include "damacy/pipeline/wave_runner.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/pipeline/place.h"
#include "damacy/pipeline/stage_chunk.h"

namespace damacy {
namespace {

constexpr std::size_t kAligned = 256;
constexpr std::size_t kRepairImage = 256 << 10;
constexpr std::size_t kRepairFill = kAligned;
constexpr std::size_t kRepairAtOnce = 256;  // placements

// Where the parts of a wave's image, and its status words, lie in one piece of memory.
struct ImageLayout {
  std::size_t frames, placements, status, end;
  ImageLayout(const FrameList& list, std::size_t frame_image, std::size_t placement_image) {
    frames = 0;
    placements = round_up(frame_image, kAligned);
    status = placements + round_up(placement_image, kAligned);
    end = status + round_up(std::size_t{4} * list.count(), kAligned);
  }
};

}  // namespace

WaveRunner::WaveRunner(std::shared_ptr<Device> device, StreamDecoder& decoder, Copier& copier, const Memory& memory,
                       StatsBoard& board)
    : device_(std::move(device)),
      decoder_(decoder),
      copier_(copier),
      memory_(memory),
      board_(board),
      up_(device_->make_stream()),
      main_(device_->make_stream()),
      repair_(device_->make_stream()),
      repair_pinned_(device_->pinned_memory(), kRepairImage + kRepairFill),
      repair_device_(device_->device_memory(), kRepairImage + kRepairFill),
      enqueuer_([this] { enqueue_all(); }),
      retirer_([this] { retire_all(); }) {}

void WaveRunner::run(std::shared_ptr<Wave> wave) {
  sealed_.push(std::move(wave), {});
}

void WaveRunner::finish() {
  sealed_.close();
  if (enqueuer_.joinable()) enqueuer_.join();
  in_flight_.close();
  if (retirer_.joinable()) retirer_.join();
}

void WaveRunner::enqueue_all() {
  while (auto wave = sealed_.pop({})) {
    (*wave)->wait_reads({});
    try {
      enqueue(**wave);
    } catch (...) {
      fail(**wave, current_error());
    }
    in_flight_.push(std::move(*wave), {});
  }
}

void WaveRunner::retire_all() {
  while (auto wave = in_flight_.pop({})) {
    try {
      (*wave)->done.wait();
      retire(**wave);
    } catch (...) {
      fail(**wave, current_error());
    }
    close(**wave);
  }
}

void WaveRunner::enqueue(Wave& wave) {
  WaveSlot& slot = wave.slot();
  const std::size_t frame_image = slot.frames->image_bytes();
  const std::size_t placement_image = copier_.image_bytes(slot.placements);
  const ImageLayout image(*slot.frames, frame_image, placement_image);
  const std::size_t decoder_scratch = round_up<std::size_t>(slot.frames->scratch_bytes(), kAligned);
  wave.pinned = memory_.pinned.take(std::max<std::size_t>(image.end, 1), {});
  wave.scratch = memory_.device.take(std::max<std::size_t>(image.end + decoder_scratch, 1), {});
  const std::span<std::byte> host = wave.pinned.bytes();
  const std::span<std::byte> device = wave.scratch.bytes();
  slot.frames->write_image(host.subspan(image.frames, frame_image));
  copier_.write_image(slot.placements, host.subspan(image.placements, placement_image));

  wave.up_began = up_->record(true);
  if (wave.staged() > 0) up_->copy(slot.source.bytes().first(wave.staged()), slot.slab.bytes().first(wave.staged()));
  if (image.status > 0) up_->copy(device.first(image.status), host.first(image.status));
  wave.up = up_->record(true);

  main_->wait(wave.up);
  const std::size_t status_bytes = std::size_t{4} * slot.frames->count();
  const std::span<std::byte> status = device.subspan(image.status, status_bytes);
  if (status_bytes > 0) {
    decoder_.enqueue(*main_, *slot.frames,
                     {slot.source.bytes(), slot.destination.bytes(), device.subspan(image.end, decoder_scratch),
                      device.subspan(image.frames, frame_image), status});
    wave.host_status = host.subspan(image.status, status_bytes);
    main_->copy(wave.host_status, status);
  }
  std::unordered_set<const BatchJob*> waited;
  for (const StagedChunk& chunk : wave.chunks())
    if (waited.insert(&chunk.tasks->job()).second)
      for (const Event& last_use : chunk.tasks->job().slot_ready()) main_->wait(last_use);
  if (placement_image > 0) copier_.enqueue(*main_, slot.placements, device.subspan(image.placements, placement_image));
  wave.done = main_->record(true);
}

// The wave is done. Chunks whose frames did not decode get a second chance on the host, which also words what is wrong.
void WaveRunner::retire(Wave& wave) {
  for (std::uint32_t frame = 0; frame * 4 < wave.host_status.size(); ++frame) {
    std::uint32_t word = 0;
    std::memcpy(&word, wave.host_status.data() + std::size_t{4} * frame, 4);
    StagedChunk* chunk = wave.owner_of(frame);
    const GpuVerdict verdict = verdict_of(word);
    if (chunk != nullptr && (verdict.ask_host || !verdict.result.ok())) wave.redo(*chunk);
  }
  auto& redo = wave.redone();
  std::sort(redo.begin(), redo.end());
  redo.erase(std::unique(redo.begin(), redo.end()), redo.end());
  for (StagedChunk* chunk : redo)
    if (!chunk->failed) decode_on_host(wave, *chunk);

  const double up_ms = wave.up.ms_since(wave.up_began).value_or(0);
  const double run_ms = wave.done.ms_since(wave.up).value_or(0);
  const auto as_span = [](double ms) {
    return std::chrono::duration_cast<StatsBoard::Span>(std::chrono::duration<double, std::milli>(ms));
  };
  board_.record(&Stats::h2d, as_span(up_ms), static_cast<double>(wave.staged()), static_cast<double>(wave.staged()));
  bool first = true;
  for (StagedChunk& chunk : wave.chunks()) {
    if (chunk.failed) continue;
    std::int64_t elements = 0;
    for (const auto& [row, count] : chunk.placed) {
      chunk.tasks->job().placed(row, count);
      elements += count;
    }
    if (chunk.is_fill) continue;
    const ArrayMetadata& metadata = chunk.tasks->array_of(chunk.tasks->shard_of(chunk.chunk)).metadata();
    if (chunk.by_device)
      chunk.tasks->count_decode(std::exchange(first, false) ? as_span(run_ms) : StatsBoard::Span{}, chunk.staged_bytes,
                                metadata.chunk_bytes());
    chunk.tasks->count_placed({}, chunk.chunk, elements,
                              chunk.by_device ? ChunkTasks::Decode::on_device : ChunkTasks::Decode::on_host);
  }
}

void WaveRunner::decode_on_host(Wave& wave, StagedChunk& chunk) {
  const ArrayMetadata& metadata = chunk.tasks->array_of(chunk.tasks->shard_of(chunk.chunk)).metadata();
  const Arena::Piece decoded = memory_.decoded.take(metadata.chunk_bytes(), {});
  const std::vector<ByteRange> needed = chunk.tasks->needed_bytes(chunk.chunk);
  const DecodeResult result = metadata.codecs.decode(
      wave.slot().slab.bytes().subspan(chunk.staged_at, chunk.staged_bytes), decoded.bytes(), needed, context_);
  if (!result.ok()) {
    chunk.failed = true;
    return chunk.tasks->fail_chunk(chunk.chunk, result);
  }
  PlacementList all;
  ChunkLayout layout;
  layout.chunk_bytes = metadata.chunk_bytes();
  {
    const std::lock_guard lock(repair_mutex_);
    repair_->copy(wave.slot().destination.bytes().subspan(chunk.decoded_at, metadata.chunk_bytes()), decoded.bytes());
    repair_->record().wait();
  }
  add_placements(all, chunk, wave.destination_address(chunk.decoded_at), layout);
  place_now(all.placements().size(), [&](PlacementList& list, std::size_t i) { list.add(all.placements()[i]); });
}

void WaveRunner::place_now(std::size_t count, const std::function<void(PlacementList&, std::size_t)>& add) {
  const std::lock_guard lock(repair_mutex_);
  for (std::size_t first = 0; first < count; first += kRepairAtOnce) {
    PlacementList list;
    for (std::size_t i = first; i < std::min(count, first + kRepairAtOnce); ++i) add(list, i);
    const std::size_t bytes = copier_.image_bytes(list);
    if (bytes > kRepairImage) throw Error(Status::oom, "a repair does not fit its buffer", "memory");
    const std::span<std::byte> host = repair_pinned_.bytes().first(bytes);
    const std::span<std::byte> image = repair_device_.bytes().first(bytes);
    copier_.write_image(list, host);
    repair_->copy(image, host);
    copier_.enqueue(*repair_, list, image);
    repair_->record().wait();
  }
}

void WaveRunner::fill_row(BatchJob& job, std::size_t row) {
  const ArrayMetadata& metadata = job.rows()[row].array->metadata();
  const std::span<std::byte> fill = repair_device_.bytes().subspan(kRepairImage, sizeof metadata.fill);
  {
    const std::lock_guard lock(repair_mutex_);
    std::memcpy(repair_pinned_.data() + kRepairImage, metadata.fill.data(), sizeof metadata.fill);
    for (const Event& last_use : job.slot_ready()) repair_->wait(last_use);
    repair_->copy(fill, repair_pinned_.bytes().subspan(kRepairImage, sizeof metadata.fill));
    repair_->record().wait();
  }
  const Box whole{Dims(job.shape().extents.size(), 0), job.shape().extents};
  place_now(1, [&](PlacementList& list, std::size_t) {
    add_fill(list, job, static_cast<std::uint32_t>(row), whole, reinterpret_cast<std::uint64_t>(fill.data()));
  });
}

void WaveRunner::move_row(BatchJob& job, std::size_t from, std::size_t to) {
  const std::lock_guard lock(repair_mutex_);
  repair_->copy(job.row_memory(to), job.row_memory(from));
  repair_->record().wait();
}

void WaveRunner::fail(Wave& wave, const Error& error) noexcept {
  for (StagedChunk& chunk : wave.chunks())
    if (!chunk.failed.exchange(true)) chunk.tasks->fail_chunk(chunk.chunk, error);
}

// The memory goes back first: settling a batch may call this thread's own engine.
void WaveRunner::close(Wave& wave) noexcept {
  std::vector<std::shared_ptr<ChunkTasks>> tasks;
  for (StagedChunk& chunk : wave.chunks()) tasks.push_back(std::move(chunk.tasks));
  wave.give_back();
  for (const auto& one : tasks) one->close_task();
}

}  // namespace damacy
