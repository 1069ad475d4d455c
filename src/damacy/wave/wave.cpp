#include "damacy/wave/wave.h"

#include <algorithm>

#include "damacy/core/mutex.h"
#include "damacy/core/on_failure.h"

namespace damacy {

StagedRange::~StagedRange() {
  if (wave_) wave_->close_range(piece_);
}

Wave::Wave(Lease<WaveSlot> lease, Arena& staging, WaveWatcher& watcher)
    : slot_(std::move(lease)), staging_(staging), watcher_(watcher) {
  slot().frames->clear();
  slot().described_bytes = 0;
}

std::uint64_t Wave::source_address(std::uint64_t offset) const noexcept {
  return reinterpret_cast<std::uint64_t>((*slot_)->source.data()) + offset;
}

std::uint64_t Wave::destination_address(std::uint64_t offset) const noexcept {
  return reinterpret_cast<std::uint64_t>((*slot_)->destination.data()) + offset;
}

bool Wave::fits(std::uint64_t staged_bytes, std::uint64_t decoded_bytes) const noexcept {
  return staged_bytes <= staging_.size() && staged_ + staged_bytes + kAlignment <= (*slot_)->source.size() &&
         decoded_bytes_ + decoded_bytes <= (*slot_)->destination.size();
}

bool Wave::last_piece_has(std::uint64_t bytes) const noexcept {
  return !pieces_.empty() && !pieces_.back().full &&
         pieces_.back().bytes + bytes <= pieces_.back().memory->bytes().size();
}

bool Wave::can_reserve(std::uint64_t bytes) const noexcept {
  return last_piece_has(bytes) || bytes <= staging_.lendable();
}

// In the last piece, or a new one: behind a full one, which then goes up and makes room. While hung reads hold much of
// the memory, pieces are as small as can be: each further read that hangs keeps the whole of its piece. Pieces that
// they hold far apart may leave no room for the usual size.
void Wave::reserve(std::uint64_t bytes, std::uint64_t most, std::stop_token stop) {
  if (last_piece_has(bytes)) return;
  close_last_piece();
  const bool scarce = staging_.stranded() > staging_.size() / 4;
  const std::uint64_t usual = scarce ? 0 : std::min<std::uint64_t>({kPiece, staging_.size() / 8, staging_.lendable()});
  auto memory = std::make_shared<Arena::Piece>(staging_.take(std::max(bytes, usual), std::move(stop), most));
  const Lock lock(mutex_);
  StagedPiece& piece = pieces_.emplace_back();
  piece.memory = std::move(memory);
  piece.begin = staged_;
}

StagedRange Wave::stage(std::uint64_t bytes) {
  const std::uint64_t whole = padded(bytes);
  const Lock lock(mutex_);
  StagedPiece& piece = pieces_.back();
  const std::span<std::byte> memory = piece.memory->bytes().subspan(piece.bytes, bytes);
  const std::uint64_t begin = std::exchange(staged_, staged_ + whole);
  piece.bytes += whole;
  ++piece.open;
  ++open_ranges_;
  return StagedRange(shared_from_this(), piece, begin, memory);
}

// A piece has one range of the source.
std::uint64_t Wave::place(std::uint64_t bytes) noexcept {
  close_last_piece();
  return std::exchange(staged_, staged_ + padded(bytes));
}

void Wave::close_last_piece() noexcept {
  const Lock lock(mutex_);
  if (pieces_.empty()) return;
  pieces_.back().full = true;
  report(pieces_.back());
}

StagedRange Wave::open() {
  const Lock lock(mutex_);
  ++open_ranges_;
  return StagedRange(shared_from_this());
}

void Wave::close_range(StagedPiece* piece) noexcept {
  const Lock lock(mutex_);
  --open_ranges_;
  if (piece != nullptr) {
    --piece->open;
    report(*piece);
  }
  if (sealed_ && open_ranges_ == 0) watcher_.wave_written(shared_from_this());
}

void Wave::seal(std::uint64_t number) noexcept {
  close_last_piece();
  const Lock lock(mutex_);
  number_ = number;
  sealed_ = true;
  if (open_ranges_ == 0) watcher_.wave_written(shared_from_this());
}

// Once, after its last writer.
void Wave::report(StagedPiece& piece) noexcept {
  if (!piece.full || piece.open > 0 || std::exchange(piece.reported, true)) return;
  watcher_.piece_written(shared_from_this(), piece);
}

std::uint64_t Wave::decode(std::uint64_t bytes, std::uint64_t frames) noexcept {
  const std::uint64_t at = decoded_bytes_;
  decoded_bytes_ += padded(bytes);
  to_decode_ += frames;
  return at;
}

StagedChunk& Wave::add(const std::shared_ptr<WantedChunks>& chunks, std::uint32_t chunk) {
  Destination& to = chunks->destination();
  StagedChunk& staged = chunks_.emplace_back();
  const OnFailure undo([this] {
    chunks_.pop_back();
    if (!shares_.empty() && shares_.back().wanted.empty()) shares_.pop_back();
  });
  if (shares_.empty() || shares_.back().to != &to) add_share(to);
  WaveShare& share = shares_.back();
  if (share.wanted.empty() || share.wanted.back().chunks != chunks)
    share.wanted.push_back({chunks, chunks->new_task()});
  staged.chunks = chunks.get();
  staged.chunk = chunk;
  staged.share = &share;
  share.end_chunk = chunks_.size();
  return staged;
}

// Of the chunk that was added last.
void Wave::add_share(Destination& to) {
  WaveShare& share = shares_.emplace_back();
  share.to = &to;
  share.first_chunk = chunks_.size() - 1;
}

void Wave::give_back() noexcept {
  scratch = {};
  pinned = {};
  {
    const Lock lock(mutex_);
    has_retired_ = true;
  }
  let_go();
  for (const std::shared_ptr<Wave>& earlier : places_from_) earlier->let_go();
  places_from_.clear();
}

bool Wave::has_retired() const {
  const Lock lock(mutex_);
  return has_retired_;
}

bool Wave::hold() noexcept {
  const Lock lock(mutex_);
  if (has_retired_) return false;
  ++holders_;
  return true;
}

void Wave::let_go() noexcept {
  {
    const Lock lock(mutex_);
    if (--holders_ > 0) return;
  }
  slot_.reset();
}

bool Wave::place_from(const std::shared_ptr<Wave>& earlier, std::uint64_t bytes, std::size_t most) {
  if (earlier.get() != this && std::ranges::find(places_from_, earlier) == places_from_.end()) {
    if (places_from_.size() >= most) return false;
    places_from_.reserve(most);
    if (!earlier->hold()) return false;
    places_from_.push_back(earlier);
  }
  joined_bytes_ += padded(bytes);
  return true;
}

void Wave::EncodedCopies::add(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  BlockCopy copy;
  copy.rank = 1;
  copy.axes[0] = {static_cast<std::int64_t>(bytes), 1, 1};
  ChunkLayout layout;
  layout.chunk_bytes = bytes;
  list.add(copy, from, to, layout);
}

void Wave::write_decoded(std::uint64_t at, std::span<const std::byte> bytes) {
  watcher_.copy_now((*slot_)->destination.bytes().subspan(at, bytes.size()), bytes);
}

void Wave::own_frames(std::span<const OwnedFrames> all) {
  std::uint64_t described = 0;
  std::uint32_t end = 0;
  for (const OwnedFrames& one : all) {
    std::uint64_t in_list = 0;
    for (const std::uint32_t frame : one.frames) {
      if (frame == FrameList::kHost) continue;
      ++in_list;
      end = std::max(end, frame + 1);
    }
    if (in_list > 0) described += padded(one.chunk->decoded_bytes()) * in_list / one.frames.size();
  }
  const Lock lock(mutex_);
  slot().described_bytes += described;
  owners_.make_room(end);
  for (const OwnedFrames& one : all) owners_.own(one.frames, *one.chunk);
}

void Wave::read_verdicts() noexcept {
  if (std::exchange(verdicts_read_, true)) return;
  const Lock lock(mutex_);
  owners_.read_verdicts(host_status);
}

}  // namespace damacy
