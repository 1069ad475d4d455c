// Selection reads into a device's memory: what all of them on one device share (memory of waves, a stream, whose turn
// it is), and the waves of one read. Readers copy encoded chunks into a pinned slab; a full slab goes up as a whole, in
// one copy, is decoded there and placed. Knows waves and streams; of a chunk only what its reader says.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/device/pool.h"

namespace damacy {

// Memory of a wave. Slab and source are alike: chunks, then the images of frames and placements.
struct ReadSlot {
  HostBuffer slab, source, destination, scratch, status, host_status;
  std::size_t chunk_bytes = 0;  // of the slab, for chunks
  std::unique_ptr<FrameList> frames;
  PlacementList placements;
};

class DeviceReads {
 public:
  struct Sizes {
    std::size_t slots = 3;
    std::size_t slab = std::size_t{32} << 20;
    std::size_t images = std::size_t{8} << 20;
    std::size_t destination = std::size_t{128} << 20;
    std::size_t scratch = std::size_t{96} << 20;
  };
  DeviceReads(std::shared_ptr<Device> device, std::unique_ptr<StreamDecoder> decoder, std::unique_ptr<Copier> copier,
              const Sizes& sizes);

  // One read at a time, so that no two wait for each other's slots: calls `start` now or at the end of another's turn.
  void take_turn(std::function<void()> start);
  void end_turn();

  struct Counters {
    std::atomic<std::int64_t> h2d_bytes{0}, h2d_copies{0};
  };
  Counters& counters() noexcept { return counters_; }
  Device& device() noexcept { return *device_; }

 private:
  friend class ReadWaves;
  std::unique_ptr<ReadSlot> make_slot(std::size_t chunks, std::size_t images, std::size_t destination,
                                      std::size_t scratch) const;
  Pool<ReadSlot> make_slots(const Sizes& sizes) const;

  std::shared_ptr<Device> device_;
  std::unique_ptr<StreamDecoder> decoder_;
  std::unique_ptr<Copier> copier_;
  Sizes sizes_;
  Pool<ReadSlot> slots_;
  Counters counters_;
  Mutex stream_mutex_;  // over the stream and what is enqueued
  const std::unique_ptr<Stream> stream_ DAMACY_PT_GUARDED_BY(stream_mutex_);
  Mutex turn_mutex_;
  bool busy_ DAMACY_GUARDED_BY(turn_mutex_) = false;
  std::deque<std::function<void()>> waiting_ DAMACY_GUARDED_BY(turn_mutex_);
};

// A chunk in a wave, as described by its reader. Called by one thread at a time.
struct WaveChunk {
  std::function<void(PlacementList&, std::uint64_t address, const ChunkLayout&)> place;
  // The device could not decode it: decodes it on the host (false: failed, and reported).
  std::function<bool(std::span<const std::byte> packed, std::span<std::byte> decoded)> decode_on_host;
};

class ReadWaves {
 public:
  using Fail = std::function<void(const Error&)>;
  // Work at the destination that comes first is `after`.
  ReadWaves(std::shared_ptr<DeviceReads> reads, std::vector<Event> after, Fail fail);

  // Any reader; all may wait for a slot. `fail` reports later errors. An encoded chunk. If a device refuses it, the
  // chunk's own decode_on_host decodes it and reports errors.
  void add_encoded(const CodecChain& codecs, std::span<const std::byte> packed, std::uint64_t decoded_bytes,
                   std::vector<ByteRange> needed, WaveChunk chunk, std::stop_token stop);
  // Elements as they are placed: bytes from `offset` of a decoded chunk of `chunk_bytes`.
  void add_elements(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t chunk_bytes, WaveChunk chunk,
                    std::stop_token stop);
  // The last wave; when no reader is left.
  void finish() noexcept;

 private:
  struct Piece {
    WaveChunk chunk;
    std::uint64_t staged_at = 0, staged_bytes = 0, decoded_at = 0, decoded_bytes = 0;
    bool redo = false;
  };
  struct Wave;
  struct Place {
    std::shared_ptr<Wave> wave;
    std::uint64_t staged_at, decoded_at;
  };
  Place reserve(std::uint64_t staged, std::uint64_t decoded, const std::stop_token& stop);
  void leave(const std::shared_ptr<Wave>& wave);
  void run(Wave& wave) noexcept;
  struct Images;
  Images images_of(ReadSlot& slot, std::size_t at, std::size_t bytes) const;
  void copy_up(std::span<std::byte> device, std::span<const std::byte> host) DAMACY_REQUIRES(reads_->stream_mutex_);
  template <class Enqueue>
  void enqueue_and_wait(Enqueue enqueue);
  void through_device(Wave& wave);
  void place_in_portions(ReadSlot& slot, const PlacementList& list);
  void redo(Wave& wave, Piece& piece);

  std::shared_ptr<DeviceReads> reads_;
  std::vector<Event> after_;
  Fail fail_;
  Mutex mutex_;
  Condition changed_;
  bool acquiring_ DAMACY_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Wave> current_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
