// Reads chunks: runs of neighbours in one request, and parts of big chunks. Passes the bytes to a sink.
// Knows objects, ranges and the memory of reads; not what the sink does with the bytes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "damacy/device/arena.h"
#include "damacy/fetch/readers.h"
#include "damacy/fetch/wanted_chunks.h"
#include "damacy/store/engine.h"

namespace damacy {

// Chunks of one array that lie near each other in a shard, or in an object that their objects are parts of.
struct ChunkRun {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> chunks;
  std::vector<std::uint64_t> begins;  // of the chunks, behind `offset`
  Nearness nearness = Nearness::far;  // of all chunks; those that are wanted may be in a run with others
  std::shared_ptr<Object> whole{};    // what is read; null: the object of the chunks
};
[[nodiscard]] ChunkRun run_of_chunk(const Wants& wants, std::uint32_t chunk);

struct ChunkReads {
  std::vector<ChunkRun> runs;
  std::vector<std::uint32_t> partial;
  std::vector<std::uint32_t> missing;
};
// Leaves out chunks that failed, and chunks to be read for which `elsewhere` is true.
[[nodiscard]] ChunkReads find_reads(
    const Wants& wants, const std::function<bool(std::uint32_t)>& elsewhere = [](std::uint32_t) { return false; });

// Memory that a read fills.
struct ReadBuffer {
  std::span<std::byte> bytes;
  std::shared_ptr<const Arena::Piece> memory;  // the piece that has them
};
// Takes a new piece, for which it may wait: the caller must hold none.
[[nodiscard]] ReadBuffer take_buffer(Arena& arena, std::uint64_t bytes, std::stop_token stop);

// Takes encoded chunks on the thread that read them.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  virtual FetchedChunks& chunks() noexcept = 0;
  // Where a read puts so many bytes.
  virtual ReadBuffer buffer(std::uint64_t bytes, std::stop_token stop) = 0;
  // Whether it also takes bytes from elsewhere than its buffers.
  virtual bool takes_held_bytes() const noexcept { return false; }
  // Whether it decodes nothing.
  virtual bool only_reads() const noexcept { return false; }
  // Whether it would rather have all of a chunk of which little is needed.
  virtual bool wants_whole(std::size_t) const noexcept { return false; }
  // The chunk cannot be read.
  virtual void fail_read(std::size_t chunk, const Error& why) noexcept = 0;
  // A request was abandoned, which makes no more calls. It keeps the sink and its buffer until its storage call
  // returns.
  virtual void end() noexcept {}
  // `packed` has the size of the encoded chunk; with `available`, only those ranges of it were read. False if they were
  // too few; then nothing was done. Otherwise the chunk is finished, also if it failed. May read it again, and throws
  // nothing but Abandoned.
  virtual bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
                    std::span<const ByteRange> available, std::stop_token stop) = 0;
};

// One read, then chunk after chunk.
class ChunkRunRead final : public Request {
 public:
  ChunkRunRead(std::shared_ptr<ChunkSink> sink, ChunkRun run);
  Part prepare(std::size_t thread, std::stop_token stop) override;
  void complete(std::size_t thread, const Part& part, const Error* failure) override;
  void while_wanted(const std::function<void()>& calls) const override { sink_->chunks().while_wanted(calls); }
  bool only_reads() const noexcept override { return sink_->only_reads(); }
  bool can_be_sent() const noexcept override;
  bool can_be_abandoned() const noexcept override { return true; }
  void abandon(const Error& why) noexcept override;

 private:
  void take_next(std::size_t thread, std::span<const std::byte> packed);
  void read_one_by_one(std::size_t thread, const Part& part, const Error& failure);
  void read_apart(std::size_t thread);
  const std::shared_ptr<Object>& object_of(std::uint32_t chunk) const { return sink_->chunks().object_with(chunk); }
  std::span<std::byte> memory_of(std::size_t number) const noexcept;  // of a chunk of the run
  std::span<const std::byte> bytes_of(std::size_t number) const noexcept;
  void read_pieces(const Part& part);
  void keep() noexcept;

  Task<Job> task_;  // ends after all below
  std::shared_ptr<ChunkSink> sink_;
  PendingRead read_;
  ChunkRun run_;
  ReadBuffer buffer_;
  HeldBytes held_;  // in place of the buffer
  std::stop_token stop_;
  Stopwatch watch_;
  std::size_t next_ = 0;  // of the run's chunks, to be given to the sink
  bool apart_ = false;    // memory for the whole run is missing: its chunks are read one by one
};

// One chunk of which little is needed. Unless it is raw, its head is read first and gives the other ranges to read. The
// rest of its staging memory stays unused.
class PartialRead final : public Request {
 public:
  PartialRead(std::shared_ptr<ChunkSink> sink, std::uint32_t chunk);
  Part prepare(std::size_t thread, std::stop_token stop) override;
  void complete(std::size_t thread, const Part& part, const Error* failure) override;
  void while_wanted(const std::function<void()>& calls) const override { sink_->chunks().while_wanted(calls); }
  bool can_be_sent() const noexcept override;
  bool can_be_abandoned() const noexcept override { return true; }
  void abandon(const Error& why) noexcept override;

 private:
  bool take(std::size_t thread, std::span<const ByteRange> available);
  bool read_whole(std::size_t thread, const Part& part);
  void read_needed(std::size_t thread, const Part& part);
  void read(const Part& part, ByteRange range);

  Task<Job> task_;  // ends after all below
  std::shared_ptr<ChunkSink> sink_;
  PendingRead read_;
  std::uint32_t chunk_;
  ReadBuffer buffer_;
  std::stop_token stop_;
  Stopwatch watch_;
  bool taken_ = false;  // by the sink
};

// Opens what chunks are read from and locates them, then makes the first read itself; other threads make the others.
class OpeningRead final : public Request {
 public:
  struct Opened {
    std::shared_ptr<ChunkSink> sink;
    ChunkReads reads;  // to be made; what is missing was dealt with
  };
  // What `open` throws fails all chunks.
  OpeningRead(Readers& readers, std::shared_ptr<FetchedChunks> chunks, std::function<Opened()> open)
      : readers_(readers), task_(chunks->new_task()), chunks_(std::move(chunks)), open_(std::move(open)) {}
  Part prepare(std::size_t thread, std::stop_token stop) override;
  void complete(std::size_t thread, const Part& part, const Error* failure) override;
  void while_wanted(const std::function<void()>& calls) const override { chunks_->while_wanted(calls); }
  bool can_be_abandoned() const noexcept override { return true; }
  void abandon(const Error& why) noexcept override;

 private:
  Readers& readers_;
  Task<Job> task_;  // ends after all below
  std::shared_ptr<FetchedChunks> chunks_;
  std::function<Opened()> open_;
  std::unique_ptr<Request> first_;
};

// Decodes a chunk on this thread, at least the bytes `needed`; `packed` and `available` as a sink takes them. Counts it
// unless the answer is need_more, which only a part can give.
[[nodiscard]] DecodeResult decode_chunk(FetchedChunks& chunks, std::size_t chunk, std::span<const std::byte> packed,
                                        std::span<const ByteRange> available, std::span<const ByteRange> needed,
                                        std::span<std::byte> decoded, DecodeContext& context);

// Counts a read request of `bytes`, of which `wanted` were needed.
void count_read(StatsBoard& board, StatsBoard::Span time, std::uint64_t bytes, std::uint64_t wanted);

}  // namespace damacy
