// The chunks that a job wants: Wants has the location of their bytes; the job says which decoded bytes are needed and
// where the elements go, and takes the report of the outcome. Batches in production and single reads implement
// WantedChunks, checks of whole arrays FetchedChunks; plans of reads have only Wants. Knows objects, codecs and
// destinations; not how bytes are read or decoded.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "damacy/cache/chunk_key.h"
#include "damacy/codec/chain.h"
#include "damacy/core/error.h"
#include "damacy/core/task.h"
#include "damacy/fetch/stats_board.h"
#include "damacy/plan/destination.h"
#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/shard.h"

namespace damacy {

// A chunk that is wanted.
struct Want {
  ChunkPlace place{};
  std::uint32_t array = 0;    // of Wants::arrays
  std::uint32_t object = 0;   // of Wants::objects
  ChunkKey id{};              // of a stored chunk, for joins and caches; reads that do neither leave it out
  bool in_part = false;       // only what is needed of it is read
  bool is_versioned = false;  // a later change of its object gives it another id: caches may keep it
};

// Chunks that were located: all that a planner of reads asks.
struct Wants {
  std::vector<std::shared_ptr<Object>> objects;  // null: absent. One that has several shards may be listed for each
  std::vector<const ArrayMetadata*> arrays;      // outlive this
  std::vector<Want> chunks;                      // those of one object follow one another
  // By chunk: what it is read from in place of its object, where such a read is under way. Empty: there is none. Chunks
  // with the same id are one read.
  std::vector<WholeObject> ahead;

  const ChunkPlace& where(std::size_t chunk) const { return chunks[chunk].place; }
  const ArrayMetadata& metadata_of(std::size_t chunk) const { return *arrays[chunks[chunk].array]; }
  const std::shared_ptr<Object>& object_with(std::size_t chunk) const { return objects[chunks[chunk].object]; }
};
// Sets Want::in_part: little of a big chunk is needed, and its codec supports partial decoding. `needed`: as
// FetchedChunks::needed_bytes(), asked of such chunks. `most_as_stored`: and no more bytes are needed than are stored.
void choose_parts(Wants& wants, const std::function<std::vector<ByteRange>(std::size_t)>& needed,
                  bool most_as_stored = false);

// Chunks that are read and decoded: all that a read asks, and the outcome of each chunk.
class FetchedChunks {
 public:
  virtual ~FetchedChunks() = default;
  const Wants& wants() const noexcept { return wants_; }
  const ChunkPlace& where(std::size_t chunk) const { return wants_.where(chunk); }
  const ArrayMetadata& metadata_of(std::size_t chunk) const { return wants_.metadata_of(chunk); }
  const std::shared_ptr<Object>& object_with(std::size_t chunk) const { return wants_.object_with(chunk); }
  const ChunkKey& id_of(std::size_t chunk) const { return wants_.chunks[chunk].id; }
  // The byte intervals of the decoded chunk that are needed, sorted and disjoint.
  virtual std::vector<ByteRange> needed_bytes(std::size_t chunk) const = 0;
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

 protected:
  Wants wants_;  // complete before the first read begins

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
