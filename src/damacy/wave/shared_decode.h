// One decode of a chunk on a device for several jobs: until the wave that decodes it retires, later jobs that want the
// chunk place it from there. Knows chunks of waves and what of them is decoded; not how waves are formed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "damacy/cache/chunk_key.h"
#include "damacy/codec/ranges.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/wave/stage_frames.h"
#include "damacy/wave/wave.h"

namespace damacy {

class SharedDecode {
 public:
  // Adds the placements of another chunk from where this one is decoded.
  using Place = void (*)(Wave& wave, StagedChunk& chunk, const StagedFrames& found);
  // `chunk`, which the wave decodes.
  SharedDecode(Wave& wave, StagedChunk& chunk, Place place) noexcept : wave_(wave), chunk_(chunk), place_(place) {}

  // The planner: whether all of these bytes are decoded, or will be.
  bool has(std::span<const ByteRange> needed) const;
  // The same; then `other`, of a wave that is not before this one, is placed from here. `open`, of its wave, ends when
  // its placements are known. False: nothing was done.
  [[nodiscard]] bool join(StagedChunk& other, std::vector<ByteRange> needed, StagedRange open);

  // The reader that describes the chunk. What is needed of it: by its own job, and by those that joined. Who joins
  // later may not need more.
  std::vector<ByteRange> begin(std::vector<ByteRange> needed);
  // Null: the host will decode it.
  void described(const StagedFrames* found) noexcept;

  // Whoever reports that the chunk cannot be read or its wave failed: those that joined fail, too.
  void fail(const Error& why) noexcept;
  // No reader will describe the chunk any more: if none has, it fails.
  void end() noexcept;

  // The thread that retires waves, after the first job of the chunk: whether the host decodes it, for each job.
  bool is_redone() const noexcept { return chunk_.redo; }
  Wave& wave() const noexcept { return wave_; }

 private:
  enum class State : std::uint8_t { waits, begun, described, on_host, failed };
  struct Joined {
    StagedChunk* chunk;
    std::optional<StagedRange> open;
    std::optional<PendingRead> read;  // of its job, too: until then the stamps of the object are not compared
  };
  bool has_now(std::span<const ByteRange> needed) const DAMACY_REQUIRES(mutex_);
  void place_one(StagedChunk& other, const StagedFrames& found) const noexcept;

  Wave& wave_;
  StagedChunk& chunk_;
  const Place place_;
  mutable Mutex mutex_;
  State state_ DAMACY_GUARDED_BY(mutex_) = State::waits;
  std::vector<ByteRange> decoded_ DAMACY_GUARDED_BY(mutex_);  // before it begins: what those that joined need
  StagedFrames found_ DAMACY_GUARDED_BY(mutex_);
  std::vector<Joined> joined_ DAMACY_GUARDED_BY(mutex_);
};

// Reports the failure of a chunk to its job, and to those that share its decode.
void fail_staged(StagedChunk& chunk, const Error& why) noexcept;

// What was to describe these chunks is gone.
void end_decodes(std::span<StagedChunk* const> chunks) noexcept;

// The decodes of waves that have not retired. One thread.
class DecodesUnderWay {
 public:
  struct Found {
    std::shared_ptr<Wave> wave;
    std::shared_ptr<SharedDecode> decode;
  };
  void add(const ChunkKey& key, const std::shared_ptr<Wave>& wave, const std::shared_ptr<SharedDecode>& decode);
  // Empty: the chunk, or these bytes of it, are not being decoded.
  std::optional<Found> find(const ChunkKey& key, std::span<const ByteRange> needed) const;
  bool has(const ChunkKey& key) const { return decodes_.contains(key); }
  void forget_ended();

 private:
  struct Hash {
    std::size_t operator()(const ChunkKey& key) const noexcept { return hash_of(key); }
  };
  struct Entry {
    const Wave* number;  // compared only
    std::weak_ptr<Wave> wave;
    std::shared_ptr<SharedDecode> decode;
  };
  struct KeysOfWave {
    const Wave* number;
    std::weak_ptr<Wave> wave;
    std::vector<ChunkKey> keys;
  };
  std::unordered_map<ChunkKey, Entry, Hash> decodes_;
  std::vector<KeysOfWave> waves_;
};

}  // namespace damacy
