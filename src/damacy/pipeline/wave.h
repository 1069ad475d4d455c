// A wave: as many chunks as fit one slab of staging memory, on their way through a device together: up, decoded,
// placed. Chunks of several batches may share one. Knows its memory and what is in it; not who reads, not who waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/device/arena.h"
#include "damacy/device/pool.h"
#include "damacy/pipeline/chunk_tasks.h"

namespace damacy {

// What a wave works with, used again by the next one that gets it.
struct WaveSlot {
  void get_ready() {
    frames->clear();
    placements.clear();
  }

  HostBuffer slab;         // pinned: encoded chunks, and crops that the host decoded
  HostBuffer source;       // on the device, as long as the slab and padded
  HostBuffer destination;  // on the device: decoded chunks
  std::unique_ptr<FrameList> frames;
  PlacementList placements;
};

// A chunk in a wave.
struct StagedChunk {
  std::shared_ptr<ChunkTasks> tasks;
  std::uint32_t chunk = 0;
  std::uint64_t staged_at = 0;  // in slab and source
  std::uint64_t staged_bytes = 0;
  std::uint64_t decoded_at = 0;  // in destination
  bool by_device = false;        // encoded bytes are staged; else what is placed
  bool is_fill = false;
  // Elements that each row gets from here.
  std::vector<std::pair<std::uint32_t, std::int64_t>> placed;
  std::atomic<bool> failed{false};  // told to its rows; nothing is placed
};

class Wave {
 public:
  static constexpr std::uint64_t kAlignment = 256;

  explicit Wave(Lease<WaveSlot> lease) : slot_(std::move(lease)) { slot().get_ready(); }

  WaveSlot& slot() noexcept { return **slot_; }
  std::uint64_t source_address(std::uint64_t offset) const noexcept;
  std::uint64_t destination_address(std::uint64_t offset) const noexcept;

  // The planner's thread only. Bytes staged and decoded so far, and more of them.
  bool fits(std::uint64_t staged, std::uint64_t decoded) const noexcept;
  bool empty() const noexcept { return chunks_.empty(); }
  std::uint64_t staged() const noexcept { return staged_; }
  std::uint64_t stage(std::uint64_t bytes) noexcept;
  std::uint64_t decode(std::uint64_t bytes) noexcept;
  StagedChunk& add(std::shared_ptr<ChunkTasks> tasks, std::uint32_t chunk);

  // Reads under way; the wave can go when none is left.
  void open_read() noexcept;
  void close_read() noexcept;
  bool wait_reads(std::stop_token stop);

  // Readers. `frame` decodes a part of the chunk; the chunk is to be decoded on the host after all.
  void own_frame(std::uint32_t frame, StagedChunk& chunk);
  void redo(StagedChunk& chunk);

  // It retires: the memory goes to the next wave.
  void give_back() noexcept;

  // When no reader is left.
  std::deque<StagedChunk>& chunks() noexcept { return chunks_; }
  StagedChunk* owner_of(std::uint32_t frame) noexcept { return frame < owners_.size() ? owners_[frame] : nullptr; }
  std::vector<StagedChunk*>& redone() noexcept { return redo_; }

  // While in flight, held until the wave retires.
  Arena::Piece scratch;  // device: decoder scratch, images, status words
  Arena::Piece pinned;   // host: images, status words
  std::span<std::byte> host_status;
  Event up_began, up, done;

 private:
  std::optional<Lease<WaveSlot>> slot_;
  std::uint64_t staged_ = 0;
  std::uint64_t decoded_ = 0;
  std::deque<StagedChunk> chunks_;  // addresses stay

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t reads_ = 0;
  std::vector<StagedChunk*> owners_;  // by frame
  std::vector<StagedChunk*> redo_;
};

}  // namespace damacy
