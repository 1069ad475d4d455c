// Packs wanted chunks into waves, in order, and submits their reads. One thread at a time. Knows the capacity of a wave
// and what decodes each chunk; not streams.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "damacy/device/arena.h"
#include "damacy/fetch/cached_chunks.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/fetch/readers.h"
#include "damacy/wave/block_reads.h"
#include "damacy/wave/crop_sink.h"
#include "damacy/wave/shared_decode.h"
#include "damacy/wave/stage_chunk.h"
#include "damacy/wave/wave.h"

namespace damacy {

// Chunks that are located, and what reads them.
struct LocatedWants {
  std::span<const std::shared_ptr<WantedChunks>> chunks;  // all are decoded by the device, or all by readers
  Readers& readers;
  DecodeMemory memory;  // for chunks that readers decode
  // With fewer decoded bytes readers decode all: a device would not finish sooner.
  std::uint64_t device_from_bytes = 0;
  bool never_more_than_stored = false;  // the device decodes also chunks whose crops are larger than what is stored
  EncodedCaches caches = {};            // of `chunks`, which is one then
  bool share_decodes = false;           // of chunks with a version that earlier jobs want, too
};

// Estimates from earlier waves how much a wave may decode before its list of frames is full. A list is limited by
// memory and by the decoder, and the number of frames of a chunk is known only after it was read. For one thread.
class FrameRoom {
 public:
  // Learns from a wave: its list was filled to `fill` (0 to 1) by chunks of `decoded_bytes`. Without any it shows
  // nothing: a slot that no wave has used yet must not make those forgotten that did.
  void learn(double fill, std::uint64_t decoded_bytes) noexcept {
    if (decoded_bytes == 0) return;
    per_byte_ = std::max(fill / static_cast<double>(decoded_bytes), per_byte_ * kRemembered);
  }
  // Decoded bytes whose frames will fit one list.
  std::uint64_t bytes() const noexcept {
    const double most = per_byte_ > 0 ? kFilled / per_byte_ : kUnlimited;
    return most < kUnlimited ? static_cast<std::uint64_t>(most) : ~std::uint64_t{0};
  }

 private:
  static constexpr double kFilled = 0.9;        // chunks differ
  static constexpr double kRemembered = 0.875;  // of what earlier waves showed, after each wave
  static constexpr double kUnlimited = 1e18;
  double per_byte_ = 0;
};

class WaveFormer {
 public:
  struct Memory {
    Pool<WaveSlot>& slots;
    std::uint64_t slab_bytes;     // of each slot, for encoded chunks
    std::uint64_t decoded_bytes;  // of each slot, for decoded chunks
    Arena& staging;
  };
  WaveFormer(const Memory& memory, WaveWatcher& watcher)
      : slots_(memory.slots),
        slab_bytes_(memory.slab_bytes),
        decoded_bytes_(memory.decoded_bytes),
        staging_(memory.staging),
        watcher_(watcher) {}

  void add(const LocatedWants& wants, std::stop_token stop);
  void seal();
  std::uint64_t sealed() const noexcept { return sealed_; }  // waves so far

 private:
  using Chunks = std::shared_ptr<WantedChunks>;
  template <class Add>
  void add_some(WantedChunks& chunks, std::span<const std::uint32_t> some, Add add);
  struct KeptChunk {
    std::uint32_t chunk;
    ChunkTier::Hold hold;
    bool on_device;
  };
  ChunkReads find_wanted_reads(const Chunks& chunks, std::vector<KeptChunk>& kept, bool& may_keep);
  bool join(const Chunks& chunks, std::uint32_t chunk);
  void share_decode(StagedChunk& staged);
  void add_kept(const Chunks& chunks, std::vector<KeptChunk> kept);
  bool add_kept_chunk(const Chunks& chunks, KeptChunk& found, StagedChunk*& staged);
  // Reads the tables of big chunks of which little is needed. Moves those that a device decodes out of `reads.partial`.
  struct ChunkBlocks {
    std::uint32_t chunk;
    std::shared_ptr<const NeededBlocks> blocks;
  };
  std::vector<ChunkBlocks> find_blocks(const Chunks& chunks, ChunkReads& reads) const;
  void add_blocks(const Chunks& chunks, const ChunkBlocks& found);
  bool goes_to_device(const LocatedWants& wants, const std::vector<ChunkReads>& reads) const;
  void add_reads(const Chunks& chunks, const ChunkReads& reads, bool by_device);
  void add_device_run(const Chunks& chunks, const ChunkRun& run);
  void add_host_run(const Chunks& chunks, const ChunkRun& run, bool partial);
  void add_host_parts(const Chunks& chunks, const ChunkRun& run, bool partial);
  void add_crops_of(const Chunks& chunks, std::uint32_t chunk, Crops& crops);
  void add_crop_of(const Chunks& chunks, std::uint32_t chunk, std::uint32_t part, const BlockCopy& copy, Crops& crops);
  void read_on_host(const Chunks& chunks, const ChunkRun& run, bool partial, Crops crops);
  void add_fill_of(const Chunks& chunks, std::uint32_t chunk);
  // A group that goes into one wave: its padded bytes, and how many frames a device decodes at least.
  struct Need {
    std::uint64_t staged = 0, decoded = 0;
    std::uint64_t frames = 0;
    std::uint64_t joined = 0;  // decoded elsewhere
  };
  // True when the current wave, perhaps a new one, has room. False also when reads that are not responding hold too
  // much staging memory.
  bool find_room(const Need& need);
  bool make_room(const Need& need, std::uint64_t most_lent);  // the same; and the bytes are reserved
  void require_room(std::uint64_t staged);  // the same, but throws Error(io, "deadline") where that returns false
  void start_wave();
  bool frames_fit(const Need& need) const;

  static constexpr std::size_t kShareHeld = 3;  // of so many waves, one keeps the memory of one other

  Pool<WaveSlot>& slots_;
  std::uint64_t slab_bytes_, decoded_bytes_;
  Arena& staging_;
  WaveWatcher& watcher_;
  const LocatedWants* wants_ = nullptr;  // during add()
  DecodesUnderWay under_way_;
  std::uint64_t decoded_joined_ = 0;  // bytes of chunks that joined, in this add()
  std::shared_ptr<Wave> wave_;
  FrameRoom frame_room_;
  // Encoded and decoded bytes, from either of which on a wave is sealed.
  std::uint64_t enough_encoded_ = ~std::uint64_t{0}, enough_decoded_ = ~std::uint64_t{0};
  std::uint64_t sealed_ = 0;  // waves so far
  std::stop_token stop_;
};

}  // namespace damacy
