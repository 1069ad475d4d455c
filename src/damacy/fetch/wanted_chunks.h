// The chunks that a job wants: the location of their bytes, the decoded bytes that are needed, where the elements go,
// and the report of the outcome. Batches in production and single reads implement WantedChunks, checks of whole arrays
// FetchedChunks, plans of reads LocatedChunks. Knows objects, codecs and destinations; not how bytes are read or
// decoded.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "damacy/batch/stats_board.h"
#include "damacy/codec/chain.h"
#include "damacy/core/error.h"
#include "damacy/core/task.h"
#include "damacy/plan/destination.h"
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
  // Chunks that lie in one object, `count` from `first` on. Together, all groups have all chunks.
  struct Group {
    std::uint32_t first, count;
  };
  virtual std::vector<Group> groups() const = 0;
  virtual const ChunkPlace& where(std::size_t chunk) const = 0;
  virtual const ArrayMetadata& metadata_of(std::size_t chunk) const = 0;
  // The byte intervals of the decoded chunk that are needed, sorted and disjoint.
  virtual std::vector<ByteRange> needed_bytes(std::size_t chunk) const = 0;
  // Whether little of a big chunk is needed, and its codec supports partial decoding.
  virtual bool worth_reading_partially(std::size_t chunk) const;
  // A look-up of the stored chunk: once for each that is to be read.
  virtual Nearness nearness(std::size_t) const { return Nearness::far; }
  // Of the object that has the stored chunk.
  virtual ReadShape read_shape(std::size_t) const { return {}; }
  virtual std::optional<WholeObject> whole_of(std::size_t) const { return std::nullopt; }
};

// Chunks that are read and decoded: all that a read asks, and the outcome of each chunk.
class FetchedChunks : public LocatedChunks {
 public:
  virtual const std::shared_ptr<Object>& object_with(std::size_t chunk) const = 0;
  Nearness nearness(std::size_t chunk) const override {
    return object_with(chunk)->nearness({where(chunk).offset, where(chunk).bytes});
  }
  ReadShape read_shape(std::size_t chunk) const override { return object_with(chunk)->read_shape(); }
  std::optional<WholeObject> whole_of(std::size_t chunk) const override { return object_with(chunk)->whole(); }
  virtual StatsBoard& board() const noexcept = 0;
  [[nodiscard]] virtual Task<Job> new_task() noexcept = 0;  // of the job that wants the chunks
  // Throws when a job of one verdict was cancelled or has failed. A batch goes on: its rows fail one by one.
  virtual void check_wanted() const {}
  // Set when such a job is cancelled; null: it cannot be.
  virtual const std::atomic<bool>* cancelled() const noexcept { return nullptr; }
  // Makes calls to stores. If the job is cancelled, waits for a remote store end early, and check_wanted() says so.
  void while_wanted(const std::function<void()>& calls) const;

  virtual void count_decode(StatsBoard::Span time, std::uint64_t encoded, std::uint64_t decoded) noexcept = 0;
  virtual void fail_chunk(std::size_t chunk, const Error& error) noexcept = 0;
  virtual void fail_all(const Error& error) noexcept = 0;

 private:
  friend class PendingRead;
  virtual void read_begins() noexcept {}
  // Its bytes have arrived, or it failed. May ask storage, and then throws nothing but Abandoned.
  virtual void read_ended() {}
  virtual void read_ended_elsewhere() noexcept {}  // storage is asked on another thread
};

// The same, with the place of their elements.
class WantedChunks : public FetchedChunks {
 public:
  virtual Destination& destination() const noexcept = 0;
  // The source of a use: the decoded chunk or, if it is missing, one fill element (source strides are 0).
  enum class From { chunk, fill };
  template <class Visit>
  void for_uses(std::size_t chunk, From from, Visit visit) const {
    visit_uses(chunk, from, std::ref(visit));
  }
  virtual std::int64_t count_uses(std::size_t chunk) const noexcept = 0;
  virtual std::span<const std::byte> fill_of(std::size_t chunk) const = 0;  // the element of From::fill

  enum class Decode { on_device, on_host, joined, cached };  // joined: decoded for another job; cached: earlier
  virtual void count_placed(StatsBoard::Span time, std::size_t chunk, std::int64_t elements, Decode how) noexcept = 0;

 private:
  virtual void visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const = 0;
};

// A read whose bytes have not arrived. Move-only; an open task of the same chunks outlives it. Where end() is not
// called, it ends as one that must not ask storage on this thread.
class PendingRead {
 public:
  explicit PendingRead(FetchedChunks& chunks) noexcept : chunks_(&chunks) { chunks.read_begins(); }
  PendingRead(PendingRead&& other) noexcept : chunks_(std::exchange(other.chunks_, nullptr)) {}
  PendingRead& operator=(PendingRead&&) = delete;
  ~PendingRead() {
    if (chunks_ != nullptr) chunks_->read_ended_elsewhere();
  }
  // Idempotent. Throws nothing but Abandoned.
  void end() {
    if (FetchedChunks* const chunks = std::exchange(chunks_, nullptr)) chunks->read_ended();
  }

 private:
  FetchedChunks* chunks_;
};

// A chunk that is read for one job and also wanted by another, which does not settle while this exists.
class ChunkConsumer {
 public:
  ChunkConsumer(std::shared_ptr<WantedChunks> chunks, std::size_t chunk)
      : chunks_(std::move(chunks)), task_(chunks_->new_task()), read_(*chunks_), chunk_(chunk) {}
  WantedChunks& chunks() const noexcept { return *chunks_; }
  std::size_t chunk() const noexcept { return chunk_; }

 private:
  std::shared_ptr<WantedChunks> chunks_;
  Task<Job> task_;
  PendingRead read_;  // ends before the task
  std::size_t chunk_;
};

}  // namespace damacy
