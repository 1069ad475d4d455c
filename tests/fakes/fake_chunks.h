// Chunks of one object that a test wants: their bytes, the intervals that are needed, and where those go. Notes reads,
// placements and failures. Knows no batch and no array; a chunk is a row of bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/mutex.h"
#include "damacy/fetch/wanted_chunks.h"
#include "damacy/store/engine.h"
#include "support/blosc_chunks.h"

namespace damacy::testing {

// Bytes in memory. Notes what is read, and fails reads of damaged ranges.
class NotedObject final : public Object {
 public:
  explicit NotedObject(ChunkBytes bytes) : bytes_(std::move(bytes)), stamp_{1, 2, bytes_.size(), 3} {}
  const Stamp& stamp() const noexcept override { return stamp_; }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    const ByteRange range{offset, offset + dst.size()};
    {
      const Lock lock(mutex_);
      reads_.push_back(range);
    }
    if (during_read) during_read();
    for (const ByteRange& one : damaged)
      if (one.begin < range.end && range.begin < one.end) throw Error(Status::io, "the disk is damaged", "io");
    if (range.end > bytes_.size()) throw Error(Status::io, "the object is too short", "short-read");
    std::memcpy(dst.data(), bytes_.data() + offset, dst.size());
  }
  void read_pieces(std::uint64_t offset, std::span<std::byte> dst, std::span<const StoredPiece> pieces) override {
    for (const StoredPiece& piece : pieces) near_pieces.push_back({piece.offset, piece.offset + piece.bytes});
    read_exact(offset, dst);
  }
  HeldBytes held(std::uint64_t offset, std::uint64_t bytes) override {
    if (!holds) return {};
    return {std::span(bytes_).subspan(offset, bytes), std::make_shared<int>()};
  }
  void keep_piece(std::uint64_t offset, std::span<const std::byte> piece) noexcept override {
    kept.push_back({offset, offset + piece.size()});
  }
  Nearness nearness(const StoredPiece&) noexcept override { return near; }
  bool forget_piece(const StoredPiece&) noexcept override {
    if (in_store.empty()) return false;
    bytes_ = std::exchange(in_store, {});
    return true;
  }
  std::vector<ByteRange> reads() const {
    const Lock lock(mutex_);
    return reads_;
  }

  std::vector<ByteRange> damaged;
  bool holds = false;                  // its bytes are in memory anyway
  std::vector<ByteRange> kept;         // by keep_piece()
  std::vector<ByteRange> near_pieces;  // of read_pieces()
  Nearness near = Nearness::far;
  std::function<void()> during_read;
  ChunkBytes in_store;  // what is read once a piece was forgotten; empty: it keeps nothing

 private:
  ChunkBytes bytes_;
  const Stamp stamp_;
  mutable Mutex mutex_;
  std::vector<ByteRange> reads_ DAMACY_GUARDED_BY(mutex_);
};

// Memory of the host or of a device. Counts what is reported.
class FakeDestination final : public Destination {
 public:
  FakeDestination(const std::shared_ptr<Alloc>& alloc, std::size_t bytes) : buffer_(alloc, bytes), bytes_(bytes) {}
  std::span<const Event> claim() override {
    ++claims;
    if (during_claim) during_claim();
    return before;
  }
  std::span<std::byte> memory() const noexcept override { return buffer_.bytes().first(bytes_); }
  void placed(std::uint32_t part, std::int64_t elements) noexcept override {
    const Lock lock(mutex_);
    placed_[part] += elements;
  }
  std::int64_t placed_of(std::uint32_t part) const {
    const Lock lock(mutex_);
    const auto found = placed_.find(part);
    return found == placed_.end() ? 0 : found->second;
  }

  int claims = 0;
  std::function<void()> during_claim;
  std::vector<Event> before;

 private:
  const HostBuffer buffer_;
  const std::size_t bytes_;
  mutable Mutex mutex_;
  std::map<std::uint32_t, std::int64_t> placed_ DAMACY_GUARDED_BY(mutex_);
};

struct FakeChunk {
  ChunkBytes decoded;
  ChunkBytes stored;             // as it is in the object
  std::vector<ByteRange> needs;  // of `decoded`; each goes to a part of its own
  bool missing = false;
  bool failed = false;
};

// A chunk that is stored as it is, or in blocks of blosc.
inline FakeChunk raw_chunk(std::size_t bytes, std::vector<ByteRange> needs, unsigned seed = 1) {
  ChunkBytes decoded = image(bytes, seed);
  return {decoded, decoded, std::move(needs)};
}
inline FakeChunk blosc_chunk(std::size_t bytes, std::vector<ByteRange> needs, std::uint32_t block, unsigned seed = 1) {
  ChunkBytes decoded = image(bytes, seed);
  return {decoded, blosc_packed(decoded, {.typesize = 2, .blocksize = block, .filter_flags = 1}), std::move(needs)};
}
inline CodecChain blosc_chain() {
  return CodecChain({{.id = CodecId::blosc, .name = "blosc"}});
}

class FakeChunks final : public Job, public WantedChunks, public std::enable_shared_from_this<FakeChunks> {
 public:
  struct With {
    CodecChain codecs{};
    std::uint64_t gap = 0;                                         // in the object, before each chunk
    std::shared_ptr<Alloc> alloc = std::make_shared<PageAlloc>();  // of the destination
    std::shared_ptr<FakeDestination> to = nullptr;                 // null: of its own
    std::uint32_t first_part = 0;
    std::uint64_t chunk_bytes = 0;  // 0: of the first
    bool is_versioned = true;
  };
  static std::shared_ptr<FakeChunks> make(std::vector<FakeChunk> chunks) { return make(std::move(chunks), With{}); }
  static std::shared_ptr<FakeChunks> make(std::vector<FakeChunk> chunks, With with) {
    return std::make_shared<FakeChunks>(std::move(chunks), std::move(with));
  }
  FakeChunks(std::vector<FakeChunk> chunks, With with) : chunks_(std::move(chunks)), first_part_(with.first_part) {
    metadata_.codecs = std::move(with.codecs);
    const std::size_t bytes = with.chunk_bytes != 0 ? with.chunk_bytes : chunks_.front().decoded.size();
    metadata_.chunk_shape = metadata_.shard_shape = {static_cast<std::int64_t>(bytes)};
    metadata_.fill[0] = std::byte{0x7f};
    ChunkBytes object;
    std::size_t out = 0;
    for (const FakeChunk& chunk : chunks_) {
      object.resize(object.size() + with.gap);
      wants_.chunks.push_back({.place = {object.size(), chunk.stored.size(), chunk.missing, chunk.failed}});
      object.insert(object.end(), chunk.stored.begin(), chunk.stored.end());
      for (const ByteRange& need : chunk.needs) {
        parts_.push_back(out);
        out += need.size();
      }
    }
    wants_.objects = {std::make_shared<NotedObject>(std::move(object))};
    WideHash version;
    version.add(words_of(wants_.objects.front()->stamp()));
    for (Want& want : wants_.chunks) {
      want.id = key_of_chunk(version, &want - wants_.chunks.data());
      want.is_versioned = with.is_versioned;
    }
    wants_.arrays = {&metadata_};
    choose_parts(wants_, [this](std::size_t chunk) { return FakeChunks::needed_bytes(chunk); });
    to_ = with.to ? with.to : std::make_shared<FakeDestination>(with.alloc, out);
    failures_.resize(chunks_.size());
  }

  // What a test sees.
  NotedObject& object() const noexcept { return *static_cast<NotedObject*>(wants_.objects.front().get()); }
  FakeDestination& to() const noexcept { return *to_; }
  const FakeChunk& chunk(std::size_t number) const noexcept { return chunks_[number]; }
  std::vector<Error> failures_of(std::size_t chunk) const {
    const Lock lock(mutex_);
    return failures_[chunk];
  }
  // Whether all that is needed of the chunk is in `memory`, which has the destination's bytes, and was reported once.
  ::testing::AssertionResult is_placed(std::size_t number, std::span<const std::byte> memory) const {
    std::uint32_t part = first_use_of(number);
    for (const ByteRange& need : chunks_[number].needs) {
      const auto got = memory.subspan(parts_[part], need.size());
      const bool is_right =
          chunks_[number].missing
              ? std::ranges::all_of(got, [](std::byte b) { return b == std::byte{0x7f}; })
              : std::ranges::equal(got, std::span(chunks_[number].decoded).subspan(need.begin, need.size()));
      if (!is_right) return ::testing::AssertionFailure() << "part " << part << " of chunk " << number << " is wrong";
      if (const auto count = to_->placed_of(first_part_ + part); count != static_cast<std::int64_t>(need.size()))
        return ::testing::AssertionFailure() << "part " << part << ": " << count << " elements, not " << need.size();
      ++part;
    }
    return ::testing::AssertionSuccess();
  }
  ::testing::AssertionResult is_placed(std::size_t number) const { return is_placed(number, to_->memory()); }
  ::testing::AssertionResult is_untouched(std::size_t number) const {
    std::uint32_t part = first_use_of(number);
    for (std::size_t i = 0; i < chunks_[number].needs.size(); ++i, ++part)
      if (to_->placed_of(first_part_ + part) != 0)
        return ::testing::AssertionFailure() << "part " << part << " was placed";
    return ::testing::AssertionSuccess();
  }
  int open_reads() const noexcept { return open_reads_; }
  int ended_elsewhere() const noexcept { return ended_elsewhere_; }
  bool is_settled() const noexcept { return settled_; }
  std::vector<Decode> decodes() const {  // of chunks that were placed
    const Lock lock(mutex_);
    return decodes_;
  }
  int decoded() const noexcept { return decoded_; }
  std::optional<Error> unwanted;     // what check_wanted() throws
  void read_in_part(bool in_part) {  // in place of what is worth it
    for (Want& chunk : wants_.chunks) chunk.in_part = in_part;
  }

  // Of WantedChunks.
  std::vector<ByteRange> needed_bytes(std::size_t chunk) const override {
    std::vector<ByteRange> ranges = chunks_[chunk].needs;
    merge_ranges(ranges);
    return ranges;
  }
  StatsBoard& board() const noexcept override { return board_; }
  Task<Job> new_task() noexcept override { return Task<Job>(shared_from_this()); }
  void check_wanted() const override {
    if (unwanted) throw *unwanted;
  }
  void count_decode(StatsBoard::Span, std::uint64_t, std::uint64_t) noexcept override { ++decoded_; }
  void fail_chunk(std::size_t chunk, const Error& error) noexcept override {
    const Lock lock(mutex_);
    failures_[chunk].push_back(error);
  }
  void fail_all(const Error& error) noexcept override {
    for (std::size_t c = 0; c < chunks_.size(); ++c) fail_chunk(c, error);
  }
  Destination& destination() const noexcept override { return *to_; }
  std::int64_t count_uses(std::size_t chunk) const noexcept override {
    return static_cast<std::int64_t>(chunks_[chunk].needs.size());
  }
  std::span<const std::byte> fill_of(std::size_t) const override { return std::span(metadata_.fill).first(1); }
  void count_placed(StatsBoard::Span, std::size_t, std::int64_t, Decode how) noexcept override {
    const Lock lock(mutex_);
    decodes_.push_back(how);
  }

 private:
  void settle() noexcept override { settled_ = true; }
  void read_begins() noexcept override { ++open_reads_; }
  void read_ended() override { --open_reads_; }
  void read_ended_elsewhere() noexcept override {
    --open_reads_;
    ++ended_elsewhere_;
  }
  std::uint32_t first_use_of(std::size_t number) const {
    std::uint32_t part = 0;
    for (std::size_t c = 0; c < number; ++c) part += static_cast<std::uint32_t>(chunks_[c].needs.size());
    return part;
  }
  void visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const override {
    std::uint32_t part = first_use_of(chunk);
    for (const ByteRange& need : chunks_[chunk].needs) {
      const bool is_stored = from == From::chunk;
      BlockCopy copy;
      copy.rank = 1;
      copy.src_offset = is_stored ? static_cast<std::int64_t>(need.begin) : 0;
      copy.dst_offset = static_cast<std::int64_t>(parts_[part]);
      copy.axes[0] = {static_cast<std::int64_t>(need.size()), is_stored ? 1 : 0, 1};
      visit({first_part_ + part, copy});
      ++part;
    }
  }

  const std::vector<FakeChunk> chunks_;
  const std::uint32_t first_part_;
  std::vector<std::size_t> parts_;  // where they begin
  ArrayMetadata metadata_;
  std::shared_ptr<FakeDestination> to_;
  mutable StatsBoard board_;
  std::atomic<int> open_reads_{0}, ended_elsewhere_{0}, decoded_{0};
  std::atomic<bool> settled_{false};
  mutable Mutex mutex_;
  std::vector<std::vector<Error>> failures_ DAMACY_GUARDED_BY(mutex_);
  std::vector<Decode> decodes_ DAMACY_GUARDED_BY(mutex_);
};

// What an engine does with a request, on this thread.
inline void serve(Request& request, std::size_t thread = 0, const std::stop_token& stop = {}) {
  Part part;
  const auto failure = failure_of([&] {
    part = request.prepare(thread, stop);
    if (part.dst.empty()) return;
    request.while_wanted([&] { part.object->read_exact(part.offset, part.dst); });
  });
  request.complete(thread, part, failure ? &*failure : nullptr);
}

}  // namespace damacy::testing
