// A wave: as many chunks as fit one slab of device memory, which are uploaded, decoded and placed together. Chunks of
// several batches may share a wave. It is uploaded in pieces of staging memory, each as soon as it is fully written,
// and each free again after its upload. Knows its memory and contents; not readers, not waiters.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "damacy/cache/chunk_cache.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/device/arena.h"
#include "damacy/device/pool.h"
#include "damacy/fetch/wanted_chunks.h"
#include "damacy/wave/frame_owners.h"

namespace damacy {

// The resources of a wave, reused by later waves.
struct WaveSlot {
  HostBuffer source;       // on the device: encoded chunks, and crops that the host decoded; padded by kAlignment
  HostBuffer destination;  // on the device: decoded chunks
  std::unique_ptr<FrameList> frames;
  std::uint64_t described_bytes = 0;  // decoded: of the chunks that have all their frames in the list
};

struct WaveShare;
struct StagedPiece;
class Wave;

// A wave, or a part of it, on its way from thread to thread; keeps the wave while it is.
struct WaveStep {
  std::shared_ptr<Wave> wave;
  StagedPiece* piece = nullptr;  // of the wave
  WaveShare* share = nullptr;
  WaveStep* next = nullptr;
};

// A chunk in a wave.
struct StagedChunk {
  std::shared_ptr<WantedChunks> chunks;
  Task<Job> task;  // of the job that wants it
  std::uint32_t chunk = 0;
  WaveShare* share = nullptr;   // its job's
  std::uint64_t staged_at = 0;  // from source's first byte, modulo 2^64: a chunk that the device keeps lies elsewhere
  std::uint64_t staged_bytes = 0;
  std::uint64_t decoded_at = 0;          // in destination
  std::optional<ChunkCache::Hold> kept;  // nothing is staged: its encoded bytes are there
  // Where a chunk is kept. Published if the device decodes it.
  std::optional<ChunkCache::Filling> keep_on_device, keep_on_host;
  bool by_device = false;  // encoded bytes are staged; else what is placed
  bool is_fill = false;
  std::atomic<bool> redo{false};  // to be decoded on the host after all
  // Elements that each part of the destination gets from here.
  std::vector<std::pair<std::uint32_t, std::int64_t>> placed;
  std::atomic<bool> failed{false};  // reported to its job; nothing is placed

  void count(std::uint32_t part, std::int64_t elements) {
    if (placed.empty() || placed.back().first != part) placed.emplace_back(part, 0);
    placed.back().second += elements;
  }
};

// What a wave does for one job. Shares are placed and reported one by one: a batch may have to wait for its slot
// until the previous batch of the same wave was popped and released.
struct WaveShare {
  Destination* to = nullptr;  // kept by its chunks
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
  std::uint64_t to_decode() const noexcept { return to_decode_; }          // chunks
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
  std::uint64_t decode(std::uint64_t bytes) noexcept;  // where so many decoded bytes go
  StagedChunk& add(std::shared_ptr<WantedChunks> chunks, std::uint32_t chunk);
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

  // Readers. Each of `frames` that is not the host's decodes a part of the chunk, of so many decoded bytes.
  void own_frames(std::span<const std::uint32_t> frames, StagedChunk& chunk, std::uint64_t decoded_bytes);

  // After it is written, only the thread that takes it through the device changes any of this.
  std::deque<StagedChunk>& chunks() noexcept { return chunks_; }
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
  bool copies_counted = false;
  std::optional<Error> failure;  // of its way through the device
  WaveStep step;
  // It retires: the memory goes to the next wave.
  void give_back() noexcept;

 private:
  friend class StagedRange;
  bool last_piece_has(std::uint64_t bytes) const noexcept;
  void close_range(StagedPiece* piece) noexcept;
  void report(StagedPiece& piece) noexcept;  // under the lock
  void close_last_piece() noexcept;

  std::optional<Lease<WaveSlot>> slot_;
  Arena& staging_;
  WaveWatcher& watcher_;
  std::uint64_t decoded_bytes_ = 0;
  std::uint64_t to_decode_ = 0;
  std::uint64_t number_ = 0;
  std::deque<StagedChunk> chunks_;  // addresses stay
  std::deque<WaveShare> shares_;    // theirs, too

  Mutex mutex_;  // planner and readers; what the planner alone writes it reads without
  std::uint64_t staged_ = 0;
  bool sealed_ DAMACY_GUARDED_BY(mutex_) = false;
  std::uint64_t open_ranges_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::deque<StagedPiece> pieces_;  // addresses stay
  FrameOwners<StagedChunk> owners_ DAMACY_GUARDED_BY(mutex_);
  bool verdicts_read_ = false;
};

}  // namespace damacy
