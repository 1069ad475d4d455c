// A wave: as many chunks as fit one slab of device memory, which are uploaded, decoded and placed together. Chunks of
// several batches may share a wave. It is uploaded in pieces of staging memory, each as soon as it is fully written,
// and each free again after its upload. Knows its memory and contents; not readers, not waiters.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "damacy/cache/chunk_tier.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/core/stable_vector.h"
#include "damacy/device/arena.h"
#include "damacy/device/pool.h"
#include "damacy/fetch/wanted_chunks.h"
#include "damacy/wave/needed_blocks.h"

namespace damacy {

// The resources of a wave, reused by later waves.
struct WaveSlot {
  HostBuffer source;       // on the device: encoded chunks, and crops that the host decoded; padded by kAlignment
  HostBuffer destination;  // on the device: decoded chunks
  std::unique_ptr<FrameList> frames;
  std::uint64_t described_bytes = 0;  // decoded: of what has its frames in the list
};

struct WaveShare;
struct StagedPiece;
class SharedDecode;
class Wave;

// A wave, or a part of it, on its way from thread to thread; keeps the wave while it is.
struct WholeWave {};
struct WaveStep {
  std::shared_ptr<Wave> wave;
  std::variant<WholeWave, StagedPiece*, WaveShare*> part;  // of the wave
  WaveStep* next = nullptr;
};

// How many elements each part of a destination gets from a chunk: mostly one or two parts, which take no allocation.
class PlacedParts {
 public:
  void add(std::uint32_t part, std::int64_t elements) {
    if (count_ > 0 && last().part == part)
      last().elements += elements;
    else if (count_ < kHere)
      here_[count_++] = {part, elements};
    else
      more_.push_back({part, elements});
  }
  void clear() noexcept {
    count_ = 0;
    more_.clear();
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < count_; ++i) visit(here_[i].part, here_[i].elements);
    for (const Placed& one : more_) visit(one.part, one.elements);
  }

 private:
  struct Placed {
    std::uint32_t part;
    std::int64_t elements;
  };
  static constexpr std::size_t kHere = 2;
  Placed& last() noexcept { return more_.empty() ? here_[count_ - 1] : more_.back(); }

  std::array<Placed, kHere> here_;
  std::size_t count_ = 0;  // of these
  std::vector<Placed> more_;
};

// A chunk in a wave.
struct StagedChunk {
  WantedChunks* chunks = nullptr;  // which its share keeps
  std::uint32_t chunk = 0;
  WaveShare* share = nullptr;   // its job's
  std::uint64_t staged_at = 0;  // from source's first byte, modulo 2^64: a chunk that the device keeps lies elsewhere
  std::uint64_t staged_bytes = 0;
  std::uint64_t decoded_at = 0;                // in destination
  std::shared_ptr<const NeededBlocks> blocks;  // only these are staged and decoded; null: all of it
  std::optional<ChunkTier::Hold> kept;         // nothing is staged: its encoded bytes are there
  // Where a chunk is kept. Published if the device decodes it.
  std::optional<ChunkTier::Filling> keep_on_device, keep_on_host;
  std::shared_ptr<SharedDecode> decode;  // which chunks of other jobs may share; null: none
  bool is_joined = false;                // `decode` is another chunk's: nothing is staged or decoded for this one
  bool by_device = false;                // encoded bytes are staged; else what is placed
  bool is_fill = false;
  std::atomic<bool> redo{false};  // to be decoded on the host after all
  PlacedParts placed;
  std::atomic<bool> failed{false};  // reported to its job; nothing is placed

  // What of its decoded bytes is in destination.
  std::uint64_t decoded_bytes() const {
    return blocks ? blocks->decoded_bytes : static_cast<std::uint64_t>(chunks->metadata_of(chunk).chunk_bytes());
  }
};

// The chunks of the frames of a wave: finds those that the host must decode after a failed frame. One thread at a time.
class FrameOwners {
 public:
  // For frames below `end`.
  void make_room(std::size_t end) {
    if (chunks_.size() < end) chunks_.resize(end, nullptr);
  }
  // There is room for `frames`, of which some may be decoded by the host.
  void own(std::span<const std::uint32_t> frames, StagedChunk& chunk) noexcept {
    for (const std::uint32_t frame : frames)
      if (frame != FrameList::kHost) chunks_[frame] = &chunk;
  }

  // `redo` of each chunk with a frame that did not decode: the host does it, and words what is wrong. `status`: a word
  // a frame, as the decoder wrote them.
  void read_verdicts(std::span<const std::byte> status) const noexcept {
    for (std::size_t frame = 0; frame < chunks_.size() && 4 * frame < status.size(); ++frame) {
      std::uint32_t word = 0;
      std::memcpy(&word, status.data() + 4 * frame, sizeof word);
      const GpuVerdict verdict = verdict_of(word);
      if (chunks_[frame] != nullptr && (verdict.ask_host || !verdict.result.ok())) chunks_[frame]->redo = true;
    }
  }

 private:
  std::vector<StagedChunk*> chunks_;  // by frame
};

// What a wave does for one job. Shares are placed and reported one by one: a batch may have to wait for its slot
// until the previous batch of the same wave was popped and released.
struct WaveShare {
  Destination* to = nullptr;
  // The chunks of the job, each with a task of it, until the share is closed.
  struct Kept {
    std::shared_ptr<WantedChunks> chunks;
    Task<Job> task;
  };
  std::vector<Kept> wanted;
  std::size_t first_chunk = 0, end_chunk = 0;
  PlacementList placements;                // from the destination's first byte
  std::span<std::byte> host_image, image;  // of the placements, here and on the device
  bool few_at_a_time = false;              // no image holds so many placements, or of so many axes
  Event began, done;                       // placing
  std::optional<Error> failure;            // of placing
  WaveStep step;
};

// Pinned memory on its way to a wave's source.
struct StagedPiece {
  std::shared_ptr<Arena::Piece> memory;  // an abandoned read keeps it longer
  std::uint64_t begin = 0, bytes = 0;    // in source
  std::uint32_t open = 0;                // ranges that are not written yet
  bool full = false, reported = false, enqueued = false;
  Event began, ended;  // its copy
  WaveStep step;
};

// Is notified of the progress of waves. Called under the wave's lock: must only pass it on and return.
class WaveWatcher {
 public:
  virtual ~WaveWatcher() = default;
  // The piece is fully written and will not be written again. It keeps its address.
  virtual void piece_written(const std::shared_ptr<Wave>& wave, StagedPiece& piece) noexcept = 0;
  // The last piece was reported, and every frame is described.
  virtual void wave_written(const std::shared_ptr<Wave>& wave) noexcept = 0;
  // Called by readers, without the lock: copies to the memory of the device. Complete on return.
  virtual void copy_now(std::span<std::byte> to, std::span<const std::byte> from) = 0;
};

// A part of a wave that is about to be written. It is written when this is destroyed. Without memory: frames that are
// about to be described.
class StagedRange {
 public:
  StagedRange() = default;
  explicit StagedRange(std::shared_ptr<Wave> wave) : wave_(std::move(wave)) {}
  StagedRange(std::shared_ptr<Wave> wave, StagedPiece& piece, std::uint64_t begin, std::span<std::byte> memory)
      : wave_(std::move(wave)), piece_(&piece), begin_(begin), memory_(memory) {}
  StagedRange(StagedRange&&) noexcept = default;
  StagedRange& operator=(StagedRange&&) = delete;
  ~StagedRange();
  std::uint64_t begin() const noexcept { return begin_; }  // in source
  std::span<std::byte> memory() const noexcept { return memory_; }
  // What an abandoned read keeps, which may still write to it.
  std::shared_ptr<const Arena::Piece> piece() const noexcept { return piece_->memory; }

 private:
  std::shared_ptr<Wave> wave_;
  StagedPiece* piece_ = nullptr;
  std::uint64_t begin_ = 0;
  std::span<std::byte> memory_;
};

class Wave : public std::enable_shared_from_this<Wave> {
 public:
  static constexpr std::uint64_t kAlignment = 256;
  // Bytes that so many take, in staging memory and on the device.
  static constexpr std::uint64_t padded(std::uint64_t bytes) noexcept {
    return round_up(std::max<std::uint64_t>(bytes, 1), kAlignment);
  }
  static constexpr std::uint64_t kPiece = 8 << 20;  // copies of this size reach the bus's full rate

  Wave(Lease<WaveSlot> lease, Arena& staging, WaveWatcher& watcher);

  WaveSlot& slot() noexcept { return **slot_; }
  std::uint64_t source_address(std::uint64_t offset) const noexcept;
  std::uint64_t destination_address(std::uint64_t offset) const noexcept;

  // The planner's thread only. Whether so many bytes more, padded, can be staged and decoded.
  bool fits(std::uint64_t staged_bytes, std::uint64_t decoded_bytes) const noexcept;
  std::uint64_t staged() const noexcept { return staged_; }
  std::uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }  // padded
  std::uint64_t to_decode() const noexcept { return to_decode_; }          // frames at least
  bool empty() const noexcept { return chunks_.empty(); }
  // Waits for staging memory, so many padded bytes, and until no more than `most` of it will be lent. Throws what
  // Arena::take does, also Error(io, "deadline") when reads that are not responding hold too much of it.
  void reserve(std::uint64_t bytes, std::uint64_t most, std::stop_token stop);
  // Whether reserve() can do without what such reads hold.
  bool can_reserve(std::uint64_t bytes) const noexcept;
  // Takes a part of what was reserved, which may be several ranges. A rest may stay unused.
  [[nodiscard]] StagedRange stage(std::uint64_t bytes);
  // Frames are about to be described, of which nothing is staged.
  [[nodiscard]] StagedRange open();
  // Where so many bytes go in source that are copied from pinned memory which is not staging memory.
  std::uint64_t place(std::uint64_t bytes) noexcept;
  // Where so many decoded bytes go, of at least so many frames.
  std::uint64_t decode(std::uint64_t bytes, std::uint64_t frames = 1) noexcept;
  StagedChunk& add(const std::shared_ptr<WantedChunks>& chunks, std::uint32_t chunk);
  // Nothing is added any more. Waves are decoded and placed in the order of their numbers, which has no gaps.
  void seal(std::uint64_t number) noexcept;
  std::uint64_t number() const noexcept { return number_; }

  // Copies of encoded bytes before the wave is decoded. Readers add them.
  struct EncodedCopies {
    PlacementList list;
    std::span<std::byte> host_image, image;  // of the list, here and on the device
    void add(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);
  };
  EncodedCopies to_source;  // from pinned memory
  EncodedCopies to_cache;   // to where chunks are kept on the device; after all uploads and to_source

  // Readers. A decoded part of a chunk, to that offset of destination.
  void write_decoded(std::uint64_t at, std::span<const std::byte> bytes);
  // Each of `frames` that is not the host's decodes a part of the chunk.
  struct OwnedFrames {
    StagedChunk* chunk;
    std::span<const std::uint32_t> frames;
  };
  // All at once: readers that add the frames of one chunk after the other wait for each other.
  void own_frames(std::span<const OwnedFrames> all);

  // After it is written, only the thread that takes it through the device changes any of this.
  StableVector<StagedChunk>& chunks() noexcept { return chunks_; }
  std::deque<WaveShare>& shares() noexcept { return shares_; }  // oldest first
  const std::deque<StagedPiece>& pieces() const noexcept { return pieces_; }
  void read_verdicts() noexcept;  // what the decoder wrote into host_status; once
  // While in flight, held until the wave retires.
  Arena::Piece scratch;  // device: decoder scratch, images, status words
  Arena::Piece pinned;   // host: images, status words
  std::span<std::byte> host_status;
  Event bringing, brought;  // to_source
  std::uint64_t bytes_brought = 0;
  Event decoding, decoded;  // its beginning and its end
  bool copies_counted = false, decoding_counted = false;
  std::optional<Error> failure;  // of its way through the device
  WaveStep step;
  // It retires: the memory goes to the next wave, unless others place from it.
  void give_back() noexcept;

  // The planner. So many decoded bytes will be placed from an earlier wave, or from this one. False: that one has
  // retired, or this one would hold more than `most` others.
  [[nodiscard]] bool place_from(const std::shared_ptr<Wave>& earlier, std::uint64_t bytes, std::size_t most);
  std::uint64_t joined_bytes() const noexcept { return joined_bytes_; }  // padded, of such chunks
  // Earlier ones, whose memory stays until this one retires.
  std::span<const std::shared_ptr<Wave>> places_from() const noexcept { return places_from_; }
  bool has_retired() const;

 private:
  friend class StagedRange;
  void add_share(Destination& to);
  bool last_piece_has(std::uint64_t bytes) const noexcept;
  void close_range(StagedPiece* piece) noexcept;
  void report(StagedPiece& piece) noexcept;  // under the lock
  void close_last_piece() noexcept;
  bool hold() noexcept;
  void let_go() noexcept;

  std::optional<Lease<WaveSlot>> slot_;  // until the last of its holders has let go
  Arena& staging_;
  WaveWatcher& watcher_;
  std::uint64_t decoded_bytes_ = 0, joined_bytes_ = 0;
  std::uint64_t to_decode_ = 0;
  std::uint64_t number_ = 0;
  StableVector<StagedChunk> chunks_;
  std::deque<WaveShare> shares_;  // addresses stay
  std::vector<std::shared_ptr<Wave>> places_from_;

  mutable Mutex mutex_;  // planner and readers; what the planner alone writes it reads without
  std::uint64_t staged_ = 0;
  bool sealed_ DAMACY_GUARDED_BY(mutex_) = false;
  std::size_t holders_ DAMACY_GUARDED_BY(mutex_) = 1;  // of its memory: itself, and waves that place from it
  bool has_retired_ DAMACY_GUARDED_BY(mutex_) = false;
  std::uint64_t open_ranges_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::deque<StagedPiece> pieces_;  // addresses stay
  FrameOwners owners_ DAMACY_GUARDED_BY(mutex_);
  bool verdicts_read_ = false;
};

}  // namespace damacy
