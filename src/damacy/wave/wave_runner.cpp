#include "damacy/wave/wave_runner.h"

#include <algorithm>
#include <vector>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/on_failure.h"
#include "damacy/wave/shared_decode.h"
#include "damacy/wave/stage_chunk.h"

namespace damacy {
namespace {

constexpr std::size_t kAligned = 256;
// Where the image of a wave's frames, its status words and the images of its placements lie in one piece of memory; on
// the device its decoder's scratch comes behind them.
struct ImageLayout {
  std::size_t frame_bytes, status_bytes, scratch_bytes;
  std::size_t status, placements, end;
  explicit ImageLayout(const FrameList& frames)
      : frame_bytes(frames.image_bytes()),
        status_bytes(std::size_t{4} * frames.count()),
        scratch_bytes(round_up<std::size_t>(frames.scratch_bytes(), kAligned)),
        status(round_up(frame_bytes, kAligned)),
        placements(status + round_up(status_bytes, kAligned)),
        end(placements) {}
};

// Bytes of the image; 0 if there are no copies, or no room for it.
std::size_t image_of(const Wave::EncodedCopies& copies, const Copier& copier, std::size_t room) {
  const std::size_t bytes = copies.list.size() == 0 ? 0 : copier.image_bytes(copies.list);
  return bytes <= room / kAligned * kAligned ? bytes : 0;
}

// Takes the memory, and gives each share's placements their part of it while there is room.
ImageLayout take_images(Wave& wave, const Copier& copier, const WaveRunner::Memory& memory) {
  ImageLayout at(*wave.slot().frames);
  const std::size_t most = std::min(memory.pinned.size(), memory.device.size() - at.scratch_bytes);
  const auto room = [&] { return most - std::min(most, at.end); };
  const std::size_t to_source = image_of(wave.to_source, copier, room());
  at.end += round_up(to_source, kAligned);
  for (WaveShare& share : wave.shares()) {
    const std::size_t bytes = round_up(copier.image_bytes(share.placements), kAligned);
    const bool is_deep = !share.placements.deep().empty() && !copier.takes_deep();
    share.few_at_a_time = is_deep || at.end + bytes > most;
    if (!share.few_at_a_time) at.end += bytes;
  }
  const std::size_t to_cache = image_of(wave.to_cache, copier, room());
  at.end += round_up(to_cache, kAligned);
  wave.pinned = memory.pinned.take(std::max<std::size_t>(at.end, 1), {});
  wave.scratch = memory.device.take(std::max<std::size_t>(at.end + at.scratch_bytes, 1), {});
  std::size_t image = at.placements;
  const auto give = [&](Wave::EncodedCopies& copies, std::size_t bytes) {
    copies.host_image = wave.pinned.bytes().subspan(image, bytes);
    copies.image = wave.scratch.bytes().subspan(image, bytes);
    image += round_up(bytes, kAligned);
  };
  give(wave.to_source, to_source);
  for (WaveShare& share : wave.shares()) {
    if (share.few_at_a_time) continue;
    const std::size_t bytes = copier.image_bytes(share.placements);
    share.host_image = wave.pinned.bytes().subspan(image, bytes);
    share.image = wave.scratch.bytes().subspan(image, bytes);
    image += round_up(bytes, kAligned);
  }
  give(wave.to_cache, to_cache);
  return at;
}

std::vector<MemoryCopy> copies_of(const PlacementList& list) {
  std::vector<MemoryCopy> copies;
  copies.reserve(list.size());
  for (const Placement& one : list.placements())
    copies.push_back({{reinterpret_cast<std::byte*>(one.dst), one.layout.chunk_bytes},
                      {reinterpret_cast<const std::byte*>(one.src), one.layout.chunk_bytes}});
  return copies;
}

// Whether the host decodes it. The job of a chunk that others share retires before theirs.
bool is_redone(const StagedChunk& chunk) {
  return chunk.is_joined ? chunk.decode->is_redone() : chunk.redo.load();
}

}  // namespace

WaveRunner::WaveRunner(std::shared_ptr<Device> device, StreamDecoder& decoder, Copier& copier, const Memory& memory,
                       StatsBoard& board)
    : device_(std::move(device)),
      decoder_(decoder),
      copier_(copier),
      memory_(memory),
      board_(board),
      up_(device_->make_stream()),
      up_beside_(device_->make_stream()),
      main_(device_->make_stream()),
      direct_(*device_, copier_, memory_.packed, memory_.decoded) {
  for (auto& stream : decode_) stream = device_->make_stream();
  const OnFailure undo([this] { finish(); });
  uploader_ = Thread("damacy-upload", [this] { upload_all(); });
  freer_ = Thread("damacy-free", [this] { free_all(); });
  placer_ = Thread("damacy-place", [this] { place_all(); });
  retirer_ = Thread("damacy-retire", [this] { retire_all(); });
}

void WaveRunner::piece_written(const std::shared_ptr<Wave>& wave, StagedPiece& piece) noexcept {
  piece.step.wave = wave;
  piece.step.part = &piece;
  written_.push(piece.step);
}

void WaveRunner::wave_written(const std::shared_ptr<Wave>& wave) noexcept {
  wave->step.wave = wave;
  written_.push(wave->step);
}

void WaveRunner::finish() {
  written_.close();
  uploader_.join();
  uploading_.close();
  freer_.join();
  decoding_.close();
  placer_.join();
  placing_.close();
  retirer_.join();
}

template <class Step>
void WaveRunner::attempt(std::optional<Error>& failure, Step step) noexcept {
  if (!failure) failure = failure_of(step);
}

void WaveRunner::upload_all() {
  while (WaveStep* const next = written_.pop()) {
    StagedPiece* const* const piece = std::get_if<StagedPiece*>(&next->part);
    if (piece == nullptr) {
      decode_in_order(*next);
      continue;
    }
    Wave& wave = *next->wave;
    attempt(wave.failure, [&] { upload(wave, **piece); });
    uploading_.push(*next);
  }
}

void WaveRunner::free_all() {
  while (WaveStep* const next = uploading_.pop()) {
    const std::shared_ptr<Wave> wave = std::move(next->wave);
    StagedPiece& piece = *std::get<StagedPiece*>(next->part);
    try {
      piece.ended.wait();
    } catch (...) {  // the thread that waits for the wave reports it
    }
    if (!piece.enqueued) wait_enqueued();  // it failed half way
    piece.memory = {};
  }
}

// In order, so that memory and slots go to the oldest wave first: it never waits for what a later one has.
void WaveRunner::decode_in_order(WaveStep& written) {
  WaveStep** place = &early_;
  while (*place != nullptr && (*place)->wave->number() < written.wave->number()) place = &(*place)->next;
  written.next = std::exchange(*place, &written);
  for (; early_ != nullptr && early_->wave->number() == next_; ++next_) {
    WaveStep& first = *std::exchange(early_, early_->next);
    board_.add(&Stats::waves_emitted, 1);
    attempt(first.wave->failure, [&] { decode(*first.wave); });
    decoding_.push(first);
  }
}

void WaveRunner::place_all() {
  while (WaveStep* const next = decoding_.pop()) {
    const std::shared_ptr<Wave> wave = std::move(next->wave);
    for (WaveShare& share : wave->shares()) {
      if (!wave->failure) attempt(share.failure, [&] { place(*wave, share); });
      share.step.wave = wave;
      share.step.part = &share;
      placing_.push(share.step);
    }
  }
}

void WaveRunner::retire_all() {
  while (WaveStep* const next = placing_.pop()) {
    const std::shared_ptr<Wave> wave = std::move(next->wave);
    WaveShare& share = *std::get<WaveShare*>(next->part);
    if (!wave->failure) {
      attempt(share.failure, [&] {
        share.done.wait();
        retire(*wave, share);
      });
    }
    if (const auto& failure = wave->failure ? wave->failure : share.failure) {
      wait_enqueued();
      direct_.wait();
      fail(*wave, share, *failure);
    }
    close(*wave, share);
  }
}

void WaveRunner::upload(Wave& wave, StagedPiece& piece) {
  piece.began = up_->record(true);
  if (piece.bytes > 0)
    up_->copy(wave.slot().source.bytes().subspan(piece.begin, piece.bytes), piece.memory->bytes().first(piece.bytes));
  piece.ended = up_->record(true);
  piece.enqueued = true;
}

// All uploads of the wave are enqueued, and its frames and placements are known.
void WaveRunner::decode(Wave& wave) {
  const WaveSlot& slot = wave.slot();
  bring_by_copies(wave);
  const ImageLayout at = take_images(wave, copier_, memory_);
  const std::span<std::byte> host = wave.pinned.bytes();
  const std::span<std::byte> device = wave.scratch.bytes();
  const std::span<std::byte> frames = device.first(at.frame_bytes);
  slot.frames->write_image(host.first(at.frame_bytes));
  if (!frames.empty()) up_->copy(frames, host.first(at.frame_bytes));
  bring_by_kernels(wave);
  const Event up = up_->record();

  Stream& stream = *decode_[turn_++ % decode_.size()];
  stream.wait(up);
  copy_encoded(stream, wave.to_cache);
  wave.decoding = stream.record(true);
  if (at.status_bytes > 0) {
    const std::span<std::byte> status = device.subspan(at.status, at.status_bytes);
    decoder_.enqueue(
        stream, *slot.frames,
        {slot.source.bytes(), slot.destination.bytes(), device.subspan(at.end, at.scratch_bytes), frames, status});
    wave.host_status = host.subspan(at.status, at.status_bytes);
    stream.copy(wave.host_status, status);
  }
  wave.decoded = stream.record(true);
}

void WaveRunner::copy_encoded(Stream& stream, Wave::EncodedCopies& copies) {
  if (copies.image.empty()) return;
  copier_.write_image(copies.list, copies.host_image);
  copier_.upload_image(stream, copies.image, copies.host_image);
  copier_.enqueue(stream, copies.list, copies.image);
}

// By the engines that copy: kernels that read pinned memory take processors of the GPU from those that decode. In two
// streams: while a copy of one begins, one of the other runs.
void WaveRunner::bring_by_copies(Wave& wave) {
  if (wave.to_source.list.size() == 0) return;
  const std::vector<MemoryCopy> copies = copies_of(wave.to_source.list);
  for (const MemoryCopy& one : copies) wave.bytes_brought += one.from.size();
  const auto half = std::span<const MemoryCopy>(copies).first(copies.size() / 2);
  wave.bringing = up_->record(true);
  if (!up_->copy_many(std::span<const MemoryCopy>(copies).subspan(half.size())) || !up_beside_->copy_many(half)) return;
  up_->wait(up_beside_->record());
  wave.brought = up_->record(true);
  wave.to_source.list.clear();
}

// Drivers that have no copies of many pieces. Without an image the copies are made now, a few at a time.
void WaveRunner::bring_by_kernels(Wave& wave) {
  if (wave.to_source.list.size() == 0) return;
  if (wave.to_source.image.empty()) direct_.place(wave.to_source.list, {});
  copy_encoded(*up_, wave.to_source);
  wave.brought = up_->record(true);
}

// Waits until the destination has memory: a batch its slot.
void WaveRunner::place(Wave& wave, WaveShare& share) {
  const std::span<const Event> ready = share.to->claim();
  share.placements.rebase(address_of(*share.to));
  if (share.few_at_a_time) {  // thousands of rows may want the same chunks
    std::vector<Event> others(ready.begin(), ready.end());
    for (const std::shared_ptr<Wave>& earlier : wave.places_from()) others.push_back(earlier->decoded);
    return direct_.place(share.placements, wave.decoded, others);
  }
  main_->wait(wave.decoded);
  for (const std::shared_ptr<Wave>& earlier : wave.places_from()) main_->wait(earlier->decoded);
  for (const Event& last_use : ready) main_->wait(last_use);
  share.began = main_->record(true);
  if (!share.image.empty()) {
    copier_.write_image(share.placements, share.host_image);
    copier_.upload_image(*main_, share.image, share.host_image);
    copier_.enqueue(*main_, share.placements, share.image);
  }
  share.done = main_->record(true);
}

void WaveRunner::retire(Wave& wave, WaveShare& share) {
  wave.read_verdicts();
  fail_overwritten(wave, share);
  for (std::size_t i = share.first_chunk; i < share.end_chunk; ++i)
    if (StagedChunk& chunk = wave.chunks()[i]; !chunk.failed && is_redone(chunk)) redo(wave, chunk);
  publish(wave, share);

  const auto as_span = [](double ms) {
    return std::chrono::duration_cast<StatsBoard::Span>(std::chrono::duration<double, std::milli>(ms));
  };
  if (!std::exchange(wave.copies_counted, true)) {
    for (const StagedPiece& piece : wave.pieces()) {
      const auto bytes = static_cast<double>(piece.bytes);
      board_.record(&Stats::h2d, as_span(piece.ended.ms_since(piece.began).value_or(0)), bytes, bytes);
    }
    if (const auto bytes = static_cast<double>(wave.bytes_brought); bytes > 0)
      board_.record(&Stats::h2d, as_span(wave.brought.ms_since(wave.bringing).value_or(0)), bytes, bytes);
  }
  // The times of the wave go to the first chunk that it decodes, those of the share to the share's.
  const auto decoding = [&] {
    if (std::exchange(wave.decoding_counted, true)) return StatsBoard::Span{};
    return as_span(wave.decoded.ms_since(wave.decoding).value_or(0));
  };
  StatsBoard::Span placing = as_span(share.done.ms_since(share.began).value_or(0));
  for (std::size_t i = share.first_chunk; i < share.end_chunk; ++i) {
    StagedChunk& chunk = wave.chunks()[i];
    if (chunk.failed) continue;
    std::int64_t elements = 0;
    chunk.placed.for_each([&](std::uint32_t part, std::int64_t count) {
      share.to->placed(part, count);
      elements += count;
    });
    if (chunk.is_fill) continue;
    const bool redone = is_redone(chunk), shares = chunk.is_joined && !redone;
    if (chunk.by_device && !shares) chunk.chunks->count_decode(decoding(), chunk.staged_bytes, chunk.decoded_bytes());
    using enum WantedChunks::Decode;
    chunk.chunks->count_placed(std::exchange(placing, {}), chunk.chunk, elements,
                               shares                       ? joined
                               : chunk.by_device && !redone ? on_device
                                                            : on_host);
  }
}

// Only a process that takes this one for dead overwrites what is held.
void WaveRunner::fail_overwritten(Wave& wave, const WaveShare& share) noexcept {
  for (std::size_t i = share.first_chunk; i < share.end_chunk; ++i) {
    StagedChunk& chunk = wave.chunks()[i];
    if (!chunk.kept || chunk.kept->is_intact() || chunk.failed) continue;
    const auto overwritten = failure_of([] {
      throw Error(Status::io, "host_cache: another process overwrote a chunk that this one was using", "shared-cache");
    });
    fail_staged(chunk, *overwritten);
  }
}

// What the device has decoded is whole, and right.
void WaveRunner::publish(Wave& wave, const WaveShare& share) noexcept {
  for (std::size_t i = share.first_chunk; i < share.end_chunk; ++i) {
    StagedChunk& chunk = wave.chunks()[i];
    if (chunk.redo || chunk.failed) continue;
    if (chunk.keep_on_host) static_cast<void>(chunk.keep_on_host->publish());
    if (chunk.keep_on_device && !wave.to_cache.image.empty()) static_cast<void>(chunk.keep_on_device->publish());
  }
}

// An error of one chunk does not affect the others. Each job that shares a decode has what it needs decoded by itself.
void WaveRunner::redo(Wave& wave, StagedChunk& chunk) noexcept {
  Wave& decodes = chunk.is_joined ? chunk.decode->wave() : wave;
  const auto failure = failure_of([&] { direct_.decode_on_host(decodes, chunk); });
  if (!failure) return;
  chunk.failed = true;
  chunk.chunks->fail_chunk(chunk.chunk, *failure);
}

// A failed wave: its memory may still be in use by enqueued work that has no event.
void WaveRunner::wait_enqueued() noexcept {
  wait_for_all(*up_);
  wait_for_all(*up_beside_);
  for (const auto& stream : decode_) wait_for_all(*stream);
  wait_for_all(*main_);
}

void WaveRunner::fail(Wave& wave, const WaveShare& share, const Error& why) noexcept {
  for (std::size_t i = share.first_chunk; i < share.end_chunk; ++i)
    if (StagedChunk& chunk = wave.chunks()[i]; !chunk.failed) fail_staged(chunk, why);
}

// The last share returns the memory before it settles the batch, because settling may call this thread's own engine.
void WaveRunner::close(Wave& wave, WaveShare& share) noexcept {
  if (share.end_chunk == wave.chunks().size()) {
    wave.give_back();
    ++retired_;
  }
  for (std::size_t i = share.first_chunk; i < share.end_chunk; ++i) {
    StagedChunk& chunk = wave.chunks()[i];
    chunk.kept.reset();
    chunk.keep_on_device.reset();
    chunk.keep_on_host.reset();
  }
  for (WaveShare::Kept& kept : share.wanted) {
    kept.task.end();
    kept.chunks.reset();
  }
}

}  // namespace damacy
