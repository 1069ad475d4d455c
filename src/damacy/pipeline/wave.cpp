#include "damacy/pipeline/wave.h"

#include <algorithm>

#include "damacy/core/checked.h"

namespace damacy {

StagedRange::~StagedRange() {
  if (wave_) wave_->close_range(range_);
}

Wave::Wave(Lease<WaveSlot> lease, WaveWatcher& watcher) : slot_(std::move(lease)), watcher_(watcher) {
  slot().frames->clear();
  pieces_.resize(round_up(slot().slab.size(), kPiece) / kPiece);
}

std::uint64_t Wave::source_address(std::uint64_t offset) const noexcept {
  return reinterpret_cast<std::uint64_t>((*slot_)->source.data()) + offset;
}

std::uint64_t Wave::destination_address(std::uint64_t offset) const noexcept {
  return reinterpret_cast<std::uint64_t>((*slot_)->destination.data()) + offset;
}

bool Wave::fits(std::uint64_t staged_bytes, std::uint64_t decoded_bytes) const noexcept {
  return staged_ + round_up(staged_bytes, kAlignment) <= (*slot_)->slab.size() &&
         decoded_bytes_ + round_up(decoded_bytes, kAlignment) <= (*slot_)->destination.size();
}

StagedRange Wave::stage(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const ByteRange range{staged_, staged_ + round_up(std::max<std::uint64_t>(bytes, 1), kAlignment)};
  for (std::uint64_t piece = range.begin / kPiece; piece * kPiece < range.end; ++piece) ++pieces_[piece].open;
  ++open_ranges_;
  const std::uint64_t first = staged_ / kPiece;
  staged_ = range.end;
  tell_pieces(first, staged_ / kPiece);
  return StagedRange(shared_from_this(), range);
}

void Wave::close_range(ByteRange range) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t end = round_up(range.end, kPiece) / kPiece;
  for (std::uint64_t piece = range.begin / kPiece; piece < end; ++piece) --pieces_[piece].open;
  --open_ranges_;
  tell_pieces(range.begin / kPiece, sealed_ ? end : std::min(end, staged_ / kPiece));
  if (sealed_ && open_ranges_ == 0) watcher_.wave_written(shared_from_this());
}

void Wave::seal(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  number_ = number;
  sealed_ = true;
  tell_pieces(0, round_up(staged_, kPiece) / kPiece);
  if (open_ranges_ == 0) watcher_.wave_written(shared_from_this());
}

// Those of pieces [first, last) that nobody writes or will write.
void Wave::tell_pieces(std::uint64_t first, std::uint64_t last) noexcept {
  for (std::uint64_t piece = first; piece < last; ++piece) {
    if (pieces_[piece].open > 0 || std::exchange(pieces_[piece].told, true)) continue;
    watcher_.piece_written(shared_from_this(), {piece * kPiece, std::min((piece + 1) * kPiece, staged_)});
  }
}

std::uint64_t Wave::decode(std::uint64_t bytes) noexcept {
  const std::uint64_t at = decoded_bytes_;
  decoded_bytes_ += round_up(bytes, kAlignment);
  return at;
}

StagedChunk& Wave::add(std::shared_ptr<ChunkTasks> tasks, std::uint32_t chunk) {
  tasks->open_task();
  if (shares_.empty() || shares_.back().job != &tasks->job()) {
    WaveShare& share = shares_.emplace_back();
    share.job = &tasks->job();
    share.first_chunk = chunks_.size();
  }
  StagedChunk& staged = chunks_.emplace_back();
  staged.tasks = std::move(tasks);
  staged.chunk = chunk;
  staged.share = &shares_.back();
  staged.share->end_chunk = chunks_.size();
  return staged;
}

void Wave::give_back() noexcept {
  scratch = {};
  pinned = {};
  slot_.reset();
}

void Wave::own_frames(std::span<const std::uint32_t> frames, StagedChunk& chunk) {
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t frame : frames) {
    if (frame == FrameList::kHost) continue;
    if (owners_.size() <= frame) owners_.resize(std::size_t{frame} + 1, nullptr);
    owners_[frame] = &chunk;
  }
}

}  // namespace damacy
