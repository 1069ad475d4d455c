#include "damacy/fetch/chunk_reads.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "damacy/core/coalesce.h"
#include "damacy/core/limits.h"
#include "damacy/device/trace.h"
#include "damacy/zarr/decode_error.h"

namespace damacy {

namespace {

// Chunks that one object has, to be read.
struct PiecesOfObject {
  std::vector<Piece> pieces{};  // by their place in the object
  ReadShape shape{};
  Nearness nearness = Nearness::far;
  std::shared_ptr<Object> whole{};  // as ChunkRun has it
};

constexpr ReadShape kOneRead{.gap = Limits::merged_read_bytes};  // of what was read together already

void add_runs(PiecesOfObject& of, ChunkReads& reads) {
  std::sort(of.pieces.begin(), of.pieces.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  for (const MergedRead& merged :
       coalesce(of.pieces, of.shape.gap, Limits::merged_read_bytes, of.shape.mostly_wanted)) {
    ChunkRun run{merged.offset, merged.size, {}, {}, of.nearness, of.whole};
    for (const Piece& piece : std::span(of.pieces).subspan(merged.first, merged.count)) {
      run.chunks.push_back(static_cast<std::uint32_t>(piece.id));
      run.begins.push_back(piece.offset - merged.offset);
    }
    reads.runs.push_back(std::move(run));
  }
}

// Collects the chunks of objects that are parts of others, until all are known.
class PiecesOfWholes {
 public:
  void add(const ArrayMetadata& of, const WholeObject& whole, const PiecesOfObject& part) {
    const auto array = reinterpret_cast<std::uintptr_t>(&of);
    const Stamp& stamp = whole.object->stamp();
    const Key key{reinterpret_cast<std::uintptr_t>(whole.id),   array, stamp.device, stamp.inode, stamp.size,
                  static_cast<std::uint64_t>(stamp.modified_ns)};
    const auto [at, is_new] = numbers_.try_emplace(key, wholes_.size());
    if (is_new) wholes_.push_back({{}, part.shape, part.nearness, whole.object});
    PiecesOfObject& all = wholes_[at->second];
    if (part.nearness == Nearness::wanted) all.nearness = Nearness::wanted;
    for (const Piece& piece : part.pieces) all.pieces.push_back({whole.offset + piece.offset, piece.size, piece.id});
  }
  void add_runs_to(ChunkReads& reads) {
    for (PiecesOfObject& of : wholes_) add_runs(of, reads);
  }

 private:
  using Key = std::array<std::uint64_t, 6>;  // the object, the array and the object's stamp
  std::map<Key, std::size_t> numbers_;
  std::vector<PiecesOfObject> wholes_;
};

// The chunks of one object, [first, end). Those that are near are read by themselves: the others ask another machine.
void add_reads(const Wants& wants, std::uint32_t first, std::uint32_t end,
               const std::function<bool(std::uint32_t)>& elsewhere, PiecesOfWholes& wholes, ChunkReads& reads) {
  PiecesOfObject near{.nearness = Nearness::near}, others;
  const std::shared_ptr<Object>& object = wants.object_with(first);
  for (std::uint32_t c = first; c < end; ++c) {
    const ChunkPlace& where = wants.where(c);
    if (where.failed) continue;
    if (where.missing) {
      reads.missing.push_back(c);
      continue;
    }
    if (elsewhere(c)) continue;
    if (!wants.ahead.empty() && wants.ahead[c].object) {
      wholes.add(wants.metadata_of(c), wants.ahead[c], {{{where.offset, where.bytes, c}}, kOneRead});
      continue;
    }
    const Nearness nearness = object->nearness({where.offset, where.bytes});
    if (nearness == Nearness::wanted) others.nearness = nearness;
    if (nearness == Nearness::near)
      near.pieces.push_back({where.offset, where.bytes, c});
    else if (nearness == Nearness::far && wants.chunks[c].in_part)
      reads.partial.push_back(c);
    else
      others.pieces.push_back({where.offset, where.bytes, c});
  }
  add_runs(near, reads);
  if (others.pieces.empty()) return;
  others.shape = object->read_shape();
  if (const auto whole = object->whole()) return wholes.add(wants.metadata_of(first), *whole, others);
  add_runs(others, reads);
}

}  // namespace

ChunkReads find_reads(const Wants& wants, const std::function<bool(std::uint32_t)>& elsewhere) {
  ChunkReads reads;
  PiecesOfWholes wholes;
  const auto count = static_cast<std::uint32_t>(wants.chunks.size());
  for (std::uint32_t first = 0, end = 0; first < count; first = end) {
    while (end < count && wants.chunks[end].object == wants.chunks[first].object) ++end;
    add_reads(wants, first, end, elsewhere, wholes, reads);
  }
  wholes.add_runs_to(reads);
  return reads;
}

ChunkRun run_of_chunk(const Wants& wants, std::uint32_t chunk) {
  return {wants.where(chunk).offset, wants.where(chunk).bytes, {chunk}, {0}};
}

DecodeResult decode_chunk(FetchedChunks& chunks, std::size_t chunk, std::span<const std::byte> packed,
                          std::span<const ByteRange> available, std::span<const ByteRange> needed,
                          std::span<std::byte> decoded, DecodeContext& context) {
  const CodecChain& codecs = chunks.metadata_of(chunk).codecs;
  const TraceRange stage("damacy decode on a core");
  const Stopwatch watch;
  const DecodeResult result = available.empty() ? codecs.decode(packed, decoded, needed, context)
                                                : codecs.decode_partial(packed, available, decoded, needed, context);
  if (result.status != DecodeStatus::need_more || available.empty())
    chunks.count_decode(watch.elapsed(), packed.size(), decoded.size());
  return result;
}

void count_read(StatsBoard& board, StatsBoard::Span time, std::uint64_t bytes, std::uint64_t wanted) {
  board.record(&Stats::io, time, static_cast<double>(bytes), static_cast<double>(wanted));
  board.add(&Stats::reads_issued, 1);
  board.add(&Stats::bytes_read, static_cast<std::int64_t>(bytes));
}

ReadBuffer take_buffer(Arena& arena, std::uint64_t bytes, std::stop_token stop) {
  auto piece = StorageWatch::wait_behind([&] { return arena.take(bytes, std::move(stop)); });
  const std::span<std::byte> memory = piece.bytes();
  return {memory, std::make_shared<const Arena::Piece>(std::move(piece))};
}

namespace {

// Waits for memory do not rely on it until the read that may still write to it returns.
void strand(const ReadBuffer& buffer, const Error& why) noexcept {
  if (buffer.memory) buffer.memory->strand(why.where().key, why.where().store);
}

// Whether single chunks may be readable where a merged read failed. A server has refused the object, not a part of it,
// and was asked as often as its rules allow.
bool may_read_apart(const Part& part, const Error& failure) {
  if (!part.object || failure.status() != Status::io) return false;
  return !part.object->can_start_reads() || failure.where().reason == "short-read";
}

}  // namespace

ChunkRunRead::ChunkRunRead(std::shared_ptr<ChunkSink> sink, ChunkRun run)
    : task_(sink->chunks().new_task()), sink_(std::move(sink)), read_(sink_->chunks()), run_(std::move(run)) {}

void ChunkRunRead::abandon(const Error& why) noexcept {
  strand(buffer_, why);
  read_.end();
  for (const std::uint32_t chunk : std::span(run_.chunks).subspan(next_)) sink_->fail_read(chunk, why);
  sink_->end();
  task_.end();
}

bool ChunkRunRead::can_be_sent() const noexcept {
  return run_.nearness != Nearness::near && object_of(run_.chunks.front())->can_start_reads();
}

Part ChunkRunRead::prepare(std::size_t, std::stop_token stop) {
  stop_ = stop;
  sink_->chunks().check_wanted();
  const std::shared_ptr<Object>& object = run_.whole ? run_.whole : object_of(run_.chunks.front());
  if (sink_->takes_held_bytes() && run_.nearness != Nearness::near) held_ = object->held(run_.offset, run_.bytes);
  watch_ = {};
  if (held_.owner) return {object, run_.offset, {}};
  try {
    buffer_ = sink_->buffer(run_.bytes, std::move(stop));
  } catch (const Error& error) {
    // Hung reads hold so much memory that there is room for single chunks at most.
    apart_ = run_.chunks.size() > 1 && error.where().reason == "deadline";
    if (!apart_) throw;
  }
  watch_ = {};
  if (run_.nearness == Nearness::near) return {object, run_.offset, {}};
  return {object, run_.offset, buffer_.bytes};
}

// Chunks that are near, of one object.
void ChunkRunRead::read_pieces(const Part& part) {
  const TraceRange stage("damacy read");
  std::vector<StoredPiece> pieces;
  pieces.reserve(run_.chunks.size());
  for (const std::uint32_t chunk : run_.chunks) {
    const ChunkPlace& where = sink_->chunks().where(chunk);
    pieces.push_back({where.offset, where.bytes});
  }
  while_wanted([&] { part.object->read_pieces(part.offset, buffer_.bytes, pieces); });
}

// What was read from far away.
void ChunkRunRead::keep() noexcept {
  if (run_.nearness != Nearness::wanted) return;
  for (std::size_t i = 0; i < run_.chunks.size(); ++i)
    object_of(run_.chunks[i])->keep_piece(sink_->chunks().where(run_.chunks[i]).offset, bytes_of(i));
}

std::span<std::byte> ChunkRunRead::memory_of(std::size_t number) const noexcept {
  return buffer_.bytes.subspan(run_.begins[number], sink_->chunks().where(run_.chunks[number]).bytes);
}

std::span<const std::byte> ChunkRunRead::bytes_of(std::size_t number) const noexcept {
  if (!held_.owner) return memory_of(number);
  return held_.bytes.subspan(run_.begins[number], sink_->chunks().where(run_.chunks[number]).bytes);
}

void ChunkRunRead::take_next(std::size_t thread, std::span<const std::byte> packed) {
  sink_->take(thread, run_.chunks[next_], packed, {}, stop_);
  ++next_;  // whatever became of it, it was the sink's
}

void ChunkRunRead::complete(std::size_t thread, const Part& part, const Error* failure) {
  FetchedChunks& chunks = sink_->chunks();
  if (failure == nullptr && apart_) {
    read_apart(thread);
    return read_.end();
  }
  if (failure != nullptr) {
    read_one_by_one(thread, part, *failure);
    return read_.end();
  }
  if (run_.nearness == Nearness::near)
    if (const auto failed = failure_of([&] { read_pieces(part); })) return complete(thread, part, &*failed);
  std::uint64_t wanted = 0;
  for (const std::uint32_t chunk : run_.chunks) wanted += chunks.where(chunk).bytes;
  count_read(chunks.board(), watch_.elapsed(), run_.nearness == Nearness::near ? wanted : run_.bytes, wanted);
  keep();
  read_.end();
  while (next_ < run_.chunks.size()) take_next(thread, bytes_of(next_));
}

// Each chunk with memory of its own.
void ChunkRunRead::read_apart(std::size_t thread) {
  FetchedChunks& chunks = sink_->chunks();
  while (next_ < run_.chunks.size()) {
    const std::uint32_t chunk = run_.chunks[next_];
    const ChunkPlace& where = chunks.where(chunk);
    const auto failed = failure_of([&] {
      buffer_ = {};  // a thread that holds memory must not wait for more
      buffer_ = sink_->buffer(where.bytes, stop_);
      watch_ = {};
      while_wanted([&] { object_of(chunk)->read_piece(where.offset, buffer_.bytes); });
      count_read(chunks.board(), watch_.elapsed(), where.bytes, where.bytes);
      take_next(thread, buffer_.bytes);
    });
    if (!failed) continue;
    ++next_;
    sink_->fail_read(chunk, *failed);
  }
}

// A merged read fails as a whole. Reads its chunks one by one, so that only those that cannot be read fail.
void ChunkRunRead::read_one_by_one(std::size_t thread, const Part& part, const Error& failure) {
  const bool again = run_.chunks.size() > 1 && may_read_apart(part, failure) && !stop_.stop_requested();
  while (next_ < run_.chunks.size()) {
    const std::uint32_t chunk = run_.chunks[next_];
    const auto failed = failure_of([&] {
      if (!again) throw run_.whole ? object_of(chunk)->as_of_part(failure) : failure;
      while_wanted([&] { object_of(chunk)->read_exact(sink_->chunks().where(chunk).offset, memory_of(next_)); });
      take_next(thread, bytes_of(next_));
    });
    if (!failed) continue;
    ++next_;
    sink_->fail_read(chunk, *failed);
  }
}

PartialRead::PartialRead(std::shared_ptr<ChunkSink> sink, std::uint32_t chunk)
    : task_(sink->chunks().new_task()), sink_(std::move(sink)), read_(sink_->chunks()), chunk_(chunk) {}

void PartialRead::abandon(const Error& why) noexcept {
  strand(buffer_, why);
  if (!taken_) sink_->fail_read(chunk_, why);
  sink_->end();
  read_.end();
  task_.end();
}

bool PartialRead::can_be_sent() const noexcept {
  return sink_->chunks().object_with(chunk_)->can_start_reads();
}

Part PartialRead::prepare(std::size_t, std::stop_token stop) {
  FetchedChunks& chunks = sink_->chunks();
  const ChunkPlace& where = chunks.where(chunk_);
  stop_ = stop;
  buffer_ = sink_->buffer(where.bytes, std::move(stop));
  watch_ = {};
  const bool raw = chunks.metadata_of(chunk_).codecs.is_raw();
  const std::size_t head = raw ? 0 : std::min<std::size_t>(CodecChain::kHeadBytes, where.bytes);
  return {chunks.object_with(chunk_), where.offset, buffer_.bytes.first(head)};
}

void PartialRead::complete(std::size_t thread, const Part& part, const Error* failure) {
  const auto failed = failure_of([&] {
    if (failure != nullptr) throw *failure;
    if (!sink_->wants_whole(chunk_) || !read_whole(thread, part)) read_needed(thread, part);
  });
  if (failed) sink_->fail_read(chunk_, *failed);
  read_.end();
}

bool PartialRead::take(std::size_t thread, std::span<const ByteRange> available) {
  taken_ = sink_->take(thread, chunk_, buffer_.bytes, available, stop_);
  return taken_;
}

void PartialRead::read(const Part& part, ByteRange range) {
  watch_ = {};
  while_wanted(
      [&] { part.object->read_exact(part.offset + range.begin, buffer_.bytes.subspan(range.begin, range.size())); });
  count_read(sink_->chunks().board(), watch_.elapsed(), range.size(), range.size());
}

// False if that is not possible: what is needed may still be read.
bool PartialRead::read_whole(std::size_t thread, const Part& part) {
  const auto failure = failure_of([&] { read(part, {0, buffer_.bytes.size()}); });
  return !failure && take(thread, {});
}

void PartialRead::read_needed(std::size_t thread, const Part& part) {
  FetchedChunks& chunks = sink_->chunks();
  const ArrayMetadata& metadata = chunks.metadata_of(chunk_);
  const std::vector<ByteRange> needed = chunks.needed_bytes(chunk_);
  const std::uint64_t encoded = buffer_.bytes.size();
  const auto take_all = [&] {  // where parts were too few
    read(part, {0, encoded});
    take(thread, {});
  };
  if (metadata.codecs.is_raw()) {
    for (const ByteRange& range : needed) read(part, range);
    if (!take(thread, needed)) take_all();
    return;
  }
  count_read(chunks.board(), watch_.elapsed(), part.dst.size(), part.dst.size());
  std::vector<ByteRange> ranges{{0, part.dst.size()}};
  const DecodeResult planned =
      metadata.codecs.partial_ranges(part.dst, encoded, metadata.chunk_bytes(), needed, ranges);
  if (!planned.ok() && planned.status != DecodeStatus::need_more)
    return chunks.fail_chunk(chunk_, decode_error(planned));
  for (const ByteRange& range : std::span(ranges).subspan(1)) read(part, range);
  merge_ranges(ranges);
  if (!planned.ok() || !take(thread, ranges)) take_all();
}

Part OpeningRead::prepare(std::size_t thread, std::stop_token stop) {
  Opened opened = open_();
  const auto add = [&](std::unique_ptr<Request> read) {
    if (first_)
      readers_.submit_urgent(std::move(read));
    else
      first_ = std::move(read);
  };
  for (ChunkRun& run : opened.reads.runs) add(std::make_unique<ChunkRunRead>(opened.sink, std::move(run)));
  for (const std::uint32_t chunk : opened.reads.partial) add(std::make_unique<PartialRead>(opened.sink, chunk));
  return first_ ? first_->prepare(thread, std::move(stop)) : Part{};
}

void OpeningRead::complete(std::size_t thread, const Part& part, const Error* failure) {
  if (first_)
    first_->complete(thread, part, failure);
  else if (failure != nullptr)
    chunks_->fail_all(*failure);
}

void OpeningRead::abandon(const Error& why) noexcept {
  if (first_)
    first_->abandon(why);
  else
    chunks_->fail_all(why);
  task_.end();
}

}  // namespace damacy
