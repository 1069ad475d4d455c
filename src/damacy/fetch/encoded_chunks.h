// The encoded chunks of a read: the location of their bytes, the decoded bytes that are needed, and the report of the
// outcome. Implemented by batches in production, by single reads of selections, and in part by plans of reads. Knows
// objects and codecs; not what happens to decoded bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "damacy/batch/stats.h"
#include "damacy/codec/chain.h"
#include "damacy/core/error.h"
#include "damacy/core/task.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// Where an encoded chunk lies in its object.
struct ChunkPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool missing = false;
  bool failed = false;
};

// Chunks that were located: all that a planner of reads asks.
class LocatedChunks {
 public:
  virtual ~LocatedChunks() = default;
  virtual const ChunkPlace& where(std::size_t chunk) const = 0;
  virtual const ArrayMetadata& metadata_of(std::size_t chunk) const = 0;
  // The byte intervals of the decoded chunk that are needed, sorted and disjoint.
  virtual std::vector<ByteRange> needed_bytes(std::size_t chunk) const = 0;
  // Whether little of a big chunk is needed, and its codec supports partial decoding.
  virtual bool worth_reading_partially(std::size_t chunk) const;
};

class EncodedChunks : public LocatedChunks {
 public:
  virtual const std::shared_ptr<Object>& object_with(std::size_t chunk) const = 0;
  virtual StatsBoard& board() const noexcept = 0;
  [[nodiscard]] virtual Task<Job> new_task() noexcept = 0;  // of the job that the chunks belong to

  virtual void count_decode(StatsBoard::Span time, std::uint64_t encoded, std::uint64_t decoded) noexcept = 0;
  virtual void fail_chunk(std::size_t chunk, const DecodeResult& result) noexcept = 0;

 private:
  friend class PendingRead;
  virtual void read_begins() noexcept {}
  // Its bytes have arrived, or it failed. May ask storage, and then throws nothing but Abandoned.
  virtual void read_ended() {}
  virtual void read_ended_elsewhere() noexcept {}  // storage is asked on another thread
};

// A read whose bytes have not arrived. Move-only; an open task of the same chunks outlives it. Where end() is not
// called, it ends as one that must not ask storage on this thread.
class PendingRead {
 public:
  explicit PendingRead(EncodedChunks& chunks) noexcept : chunks_(&chunks) { chunks.read_begins(); }
  PendingRead(PendingRead&& other) noexcept : chunks_(std::exchange(other.chunks_, nullptr)) {}
  PendingRead& operator=(PendingRead&&) = delete;
  ~PendingRead() {
    if (chunks_ != nullptr) chunks_->read_ended_elsewhere();
  }
  // Idempotent. Throws nothing but Abandoned.
  void end() {
    if (EncodedChunks* const chunks = std::exchange(chunks_, nullptr)) chunks->read_ended();
  }

 private:
  EncodedChunks* chunks_;
};

}  // namespace damacy
