#include "damacy/fetch/chunk_reads.h"

#include <algorithm>
#include <utility>

#include "damacy/core/coalesce.h"
#include "damacy/device/trace.h"
#include "damacy/zarr/decode_error.h"

namespace damacy {

namespace {

void add_runs(std::vector<Piece>& pieces, Nearness nearness, ChunkReads& reads) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  for (const MergedRead& merged : coalesce(pieces)) {
    ChunkRun run{merged.offset, merged.size, {}, nearness};
    for (const Piece& piece : std::span(pieces).subspan(merged.first, merged.count))
      run.chunks.push_back(static_cast<std::uint32_t>(piece.id));
    reads.runs.push_back(std::move(run));
  }
}

// Chunks that are near are read by themselves: the others ask another machine.
void add_reads(const LocatedChunks& chunks, const LocatedChunks::Group& group,
               const std::function<bool(std::uint32_t)>& elsewhere, ChunkReads& reads) {
  std::vector<Piece> near, others;
  bool is_wanted = false;
  for (std::uint32_t c = group.first; c < group.first + group.count; ++c) {
    const ChunkPlace& where = chunks.where(c);
    if (where.failed) continue;
    if (where.missing) {
      reads.missing.push_back(c);
      continue;
    }
    if (elsewhere(c)) continue;
    const Nearness nearness = chunks.nearness(c);
    is_wanted = is_wanted || nearness == Nearness::wanted;
    if (nearness == Nearness::near)
      near.push_back({where.offset, where.bytes, c});
    else if (nearness == Nearness::far && chunks.worth_reading_partially(c))
      reads.partial.push_back(c);
    else
      others.push_back({where.offset, where.bytes, c});
  }
  add_runs(near, Nearness::near, reads);
  add_runs(others, is_wanted ? Nearness::wanted : Nearness::far, reads);
}

}  // namespace

ChunkReads find_reads(const LocatedChunks& chunks, const std::function<bool(std::uint32_t)>& elsewhere) {
  ChunkReads reads;
  for (const LocatedChunks::Group& group : chunks.groups()) add_reads(chunks, group, elsewhere, reads);
  return reads;
}

DecodeResult decode_chunk(WantedChunks& chunks, std::size_t chunk, std::span<const std::byte> packed,
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
  return run_.nearness != Nearness::near && sink_->chunks().object_with(run_.chunks.front())->can_start_reads();
}

Part ChunkRunRead::prepare(std::size_t, std::stop_token stop) {
  stop_ = stop;
  sink_->chunks().check_wanted();
  const std::shared_ptr<Object>& object = sink_->chunks().object_with(run_.chunks.front());
  try {
    buffer_ = sink_->buffer(run_.bytes, std::move(stop));
  } catch (const Error& error) {
    // Hung reads hold so much memory that there is room for single chunks at most.
    apart_ = run_.chunks.size() > 1 && error.where().reason == "deadline";
    if (!apart_) throw;
  }
  watch_ = {};
  return {object, run_.offset, buffer_.bytes,
          run_.nearness == Nearness::near && !apart_ ? pieces() : std::vector<StoredPiece>()};
}

std::vector<StoredPiece> ChunkRunRead::pieces() const {
  std::vector<StoredPiece> pieces;
  pieces.reserve(run_.chunks.size());
  for (const std::uint32_t chunk : run_.chunks) {
    const ChunkPlace& where = sink_->chunks().where(chunk);
    pieces.push_back({where.offset, where.bytes});
  }
  return pieces;
}

// What was read from far away.
void ChunkRunRead::keep(const Part& part) noexcept {
  if (run_.nearness != Nearness::wanted) return;
  try {
    part.object->keep_pieces(part.offset, part.dst, pieces());
  } catch (const std::bad_alloc&) {  // it is not kept
  }
}

std::span<std::byte> ChunkRunRead::bytes_of_chunk(std::uint32_t chunk) const noexcept {
  const ChunkPlace& where = sink_->chunks().where(chunk);
  return buffer_.bytes.subspan(where.offset - run_.offset, where.bytes);
}

void ChunkRunRead::take(std::size_t thread, std::uint32_t chunk) noexcept {
  ++next_;  // whatever becomes of it, it is the sink's
  sink_->take(thread, chunk, bytes_of_chunk(chunk), {}, stop_);
}

void ChunkRunRead::complete(std::size_t thread, const Part& part, const Error* failure) {
  WantedChunks& chunks = sink_->chunks();
  if (failure == nullptr && apart_) {
    read_apart(thread, part);
    return read_.end();
  }
  if (failure != nullptr) {
    read_one_by_one(thread, part, *failure);
    return read_.end();
  }
  std::uint64_t wanted = 0;
  for (const std::uint32_t chunk : run_.chunks) wanted += chunks.where(chunk).bytes;
  count_read(chunks.board(), watch_.elapsed(), run_.nearness == Nearness::near ? wanted : run_.bytes, wanted);
  keep(part);
  read_.end();
  while (next_ < run_.chunks.size()) take(thread, run_.chunks[next_]);
}

// Each chunk with memory of its own.
void ChunkRunRead::read_apart(std::size_t thread, const Part& part) {
  WantedChunks& chunks = sink_->chunks();
  while (next_ < run_.chunks.size()) {
    const std::uint32_t chunk = run_.chunks[next_];
    const ChunkPlace& where = chunks.where(chunk);
    const auto failed = failure_of([&] {
      buffer_ = {};  // a thread that holds memory must not wait for more
      buffer_ = sink_->buffer(where.bytes, stop_);
      run_.offset = where.offset;
      watch_ = {};
      part.object->read_piece(where.offset, buffer_.bytes);
      count_read(chunks.board(), watch_.elapsed(), where.bytes, where.bytes);
      take(thread, chunk);
    });
    if (!failed) continue;
    ++next_;
    sink_->fail_read(chunk, *failed);
  }
}

// A merged read fails as a whole. Reads its chunks one by one, so that only those that cannot be read fail.
void ChunkRunRead::read_one_by_one(std::size_t thread, const Part& part, const Error& failure) {
  const bool again = run_.chunks.size() > 1 && part.object && failure.status() == Status::io && !stop_.stop_requested();
  while (next_ < run_.chunks.size()) {
    const std::uint32_t chunk = run_.chunks[next_];
    const auto failed = failure_of([&] {
      if (!again) throw failure;
      part.object->read_exact(sink_->chunks().where(chunk).offset, bytes_of_chunk(chunk));
      take(thread, chunk);
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
  WantedChunks& chunks = sink_->chunks();
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

bool PartialRead::take(std::size_t thread, std::span<const ByteRange> available) noexcept {
  taken_ = true;
  if (sink_->take(thread, chunk_, buffer_.bytes, available, stop_)) return true;
  taken_ = false;
  return false;
}

void PartialRead::read(const Part& part, ByteRange range) {
  watch_ = {};
  part.object->read_exact(part.offset + range.begin, buffer_.bytes.subspan(range.begin, range.size()));
  count_read(sink_->chunks().board(), watch_.elapsed(), range.size(), range.size());
}

// False if that is not possible: what is needed may still be read.
bool PartialRead::read_whole(std::size_t thread, const Part& part) {
  const auto failure = failure_of([&] { read(part, {0, buffer_.bytes.size()}); });
  return !failure && take(thread, {});
}

void PartialRead::read_needed(std::size_t thread, const Part& part) {
  WantedChunks& chunks = sink_->chunks();
  const ArrayMetadata& metadata = chunks.metadata_of(chunk_);
  const std::vector<ByteRange> needed = chunks.needed_bytes(chunk_);
  if (metadata.codecs.is_raw()) {
    for (const ByteRange& range : needed) read(part, range);
    take(thread, needed);
    return;
  }
  count_read(chunks.board(), watch_.elapsed(), part.dst.size(), part.dst.size());
  const std::uint64_t encoded = buffer_.bytes.size();
  std::vector<ByteRange> ranges{{0, part.dst.size()}};
  const DecodeResult planned =
      metadata.codecs.partial_ranges(part.dst, encoded, metadata.chunk_bytes(), needed, ranges);
  if (!planned.ok() && planned.status != DecodeStatus::need_more)
    return chunks.fail_chunk(chunk_, decode_error(planned));
  for (const ByteRange& range : std::span(ranges).subspan(1)) read(part, range);
  merge_ranges(ranges);
  if (planned.ok() && take(thread, ranges)) return;
  read(part, {0, encoded});  // the estimate was too small: all of it
  take(thread, {});
}

}  // namespace damacy
