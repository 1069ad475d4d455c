#include "damacy/fetch/chunk_reads.h"

#include <algorithm>
#include <utility>

#include "damacy/batch/place.h"
#include "damacy/core/coalesce.h"
#include "damacy/device/trace.h"

namespace damacy {

void find_reads(const LocatedChunks& chunks, std::uint32_t first, std::uint32_t count,
                const std::function<bool(std::uint32_t)>& elsewhere, ChunkReads& reads) {
  std::vector<Piece> pieces;
  for (std::uint32_t c = first; c < first + count; ++c) {
    const ChunkPlace& where = chunks.where(c);
    if (where.failed) continue;
    if (where.missing)
      reads.missing.push_back(c);
    else if (elsewhere(c))
      continue;
    else if (chunks.worth_reading_partially(c))
      reads.partial.push_back(c);
    else
      pieces.push_back({where.offset, where.bytes, c});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  for (const MergedRead& merged : coalesce(pieces)) {
    ChunkRun run{merged.offset, merged.size, {}};
    for (const Piece& piece : std::span(pieces).subspan(merged.first, merged.count))
      run.chunks.push_back(static_cast<std::uint32_t>(piece.id));
    reads.runs.push_back(std::move(run));
  }
}

ChunkReads find_reads(const LocatedChunks& chunks, const BatchPlan& plan,
                      const std::function<bool(std::uint32_t)>& elsewhere) {
  ChunkReads reads;
  for (const PlannedShard& shard : plan.shards)
    find_reads(chunks, shard.first_chunk, shard.chunk_count, elsewhere, reads);
  return reads;
}

DecodeResult decode_chunk(EncodedChunks& tasks, std::size_t chunk, std::span<const std::byte> packed,
                          std::span<const ByteRange> available, std::span<const ByteRange> needed,
                          std::span<std::byte> decoded, DecodeContext& context) {
  const CodecChain& codecs = tasks.metadata_of(chunk).codecs;
  const TraceRange stage("damacy decode on a core");
  const Stopwatch watch;
  const DecodeResult result = available.empty() ? codecs.decode(packed, decoded, needed, context)
                                                : codecs.decode_partial(packed, available, decoded, needed, context);
  if (result.status != DecodeStatus::need_more || available.empty())
    tasks.count_decode(watch.elapsed(), packed.size(), decoded.size());
  return result;
}

void count_read(StatsBoard& board, StatsBoard::Span time, std::uint64_t bytes, std::uint64_t wanted) {
  board.record(&Stats::io, time, static_cast<double>(bytes), static_cast<double>(wanted));
  board.add(&Stats::reads_issued, 1);
  board.add(&Stats::bytes_read, static_cast<std::int64_t>(bytes));
}

namespace {

Arena::Piece take_memory(Arena& arena, std::uint64_t bytes, std::stop_token stop) {
  return StorageWatch::wait_behind([&] { return arena.take(bytes, std::move(stop)); });
}

}  // namespace

ChunkRunRead::ChunkRunRead(std::shared_ptr<ChunkSink> sink, ChunkRun run)
    : task_(sink->tasks().new_task()), sink_(std::move(sink)), read_(sink_->tasks()), run_(std::move(run)) {}

void ChunkRunRead::abandon(const Error& why) noexcept {
  staging_.strand(why.where().key, why.where().store);
  read_.end();
  for (const std::uint32_t chunk : std::span(run_.chunks).subspan(next_)) sink_->fail_read(chunk, why);
  sink_->end();
  task_.end();
}

Part ChunkRunRead::prepare(std::size_t, std::stop_token stop) {
  stop_ = stop;
  const std::shared_ptr<Object>& object = sink_->tasks().object_with(run_.chunks.front());
  try {
    staging_ = take_memory(sink_->staging(), run_.bytes, std::move(stop));
  } catch (const Error& error) {
    // Hung reads hold so much memory that there is room for single chunks at most.
    apart_ = run_.chunks.size() > 1 && error.where().reason == "deadline";
    if (!apart_) throw;
  }
  watch_ = {};
  return {object, run_.offset, staging_.bytes()};
}

std::span<std::byte> ChunkRunRead::bytes_of_chunk(std::uint32_t chunk) const noexcept {
  const ChunkPlace& where = sink_->tasks().where(chunk);
  return staging_.bytes().subspan(where.offset - run_.offset, where.bytes);
}

void ChunkRunRead::take(std::size_t thread, std::uint32_t chunk) noexcept {
  ++next_;  // whatever becomes of it, it is the sink's
  sink_->take(thread, chunk, bytes_of_chunk(chunk), {}, stop_);
}

void ChunkRunRead::complete(std::size_t thread, const Part& part, const Error* failure) {
  EncodedChunks& tasks = sink_->tasks();
  if (failure == nullptr && apart_) {
    read_apart(thread, part);
    return read_.end();
  }
  if (failure != nullptr) {
    read_one_by_one(thread, part, *failure);
    return read_.end();
  }
  std::uint64_t wanted = 0;
  for (const std::uint32_t chunk : run_.chunks) wanted += tasks.where(chunk).bytes;
  count_read(tasks.board(), watch_.elapsed(), run_.bytes, wanted);
  read_.end();
  while (next_ < run_.chunks.size()) take(thread, run_.chunks[next_]);
}

// Each chunk with memory of its own.
void ChunkRunRead::read_apart(std::size_t thread, const Part& part) {
  EncodedChunks& tasks = sink_->tasks();
  while (next_ < run_.chunks.size()) {
    const std::uint32_t chunk = run_.chunks[next_];
    const ChunkPlace& where = tasks.where(chunk);
    const auto failed = failure_of([&] {
      staging_ = {};  // a thread that holds memory must not wait for more
      staging_ = take_memory(sink_->staging(), where.bytes, stop_);
      run_.offset = where.offset;
      watch_ = {};
      part.object->read_exact(where.offset, staging_.bytes());
      count_read(tasks.board(), watch_.elapsed(), where.bytes, where.bytes);
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
      part.object->read_exact(sink_->tasks().where(chunk).offset, bytes_of_chunk(chunk));
      take(thread, chunk);
    });
    if (!failed) continue;
    ++next_;
    sink_->fail_read(chunk, *failed);
  }
}

PartialRead::PartialRead(std::shared_ptr<ChunkSink> sink, std::uint32_t chunk)
    : task_(sink->tasks().new_task()), sink_(std::move(sink)), read_(sink_->tasks()), chunk_(chunk) {}

void PartialRead::abandon(const Error& why) noexcept {
  staging_.strand(why.where().key, why.where().store);
  if (!taken_) sink_->fail_read(chunk_, why);
  sink_->end();
  read_.end();
  task_.end();
}

Part PartialRead::prepare(std::size_t, std::stop_token stop) {
  EncodedChunks& tasks = sink_->tasks();
  const ChunkPlace& where = tasks.where(chunk_);
  stop_ = stop;
  staging_ = take_memory(sink_->staging(), where.bytes, std::move(stop));
  watch_ = {};
  const bool raw = tasks.metadata_of(chunk_).codecs.is_raw();
  const std::size_t head = raw ? 0 : std::min<std::size_t>(CodecChain::kHeadBytes, where.bytes);
  return {tasks.object_with(chunk_), where.offset, staging_.bytes().first(head)};
}

void PartialRead::complete(std::size_t thread, const Part& part, const Error* failure) {
  const auto failed = failure_of([&] {
    if (failure != nullptr) throw *failure;
    read_needed(thread, part);
  });
  if (failed) sink_->fail_read(chunk_, *failed);
  read_.end();
}

bool PartialRead::take(std::size_t thread, std::span<const ByteRange> available) noexcept {
  taken_ = true;
  if (sink_->take(thread, chunk_, staging_.bytes(), available, stop_)) return true;
  taken_ = false;
  return false;
}

void PartialRead::read(const Part& part, ByteRange range) {
  watch_ = {};
  part.object->read_exact(part.offset + range.begin, staging_.bytes().subspan(range.begin, range.size()));
  count_read(sink_->tasks().board(), watch_.elapsed(), range.size(), range.size());
}

void PartialRead::read_needed(std::size_t thread, const Part& part) {
  EncodedChunks& tasks = sink_->tasks();
  const ArrayMetadata& metadata = tasks.metadata_of(chunk_);
  const std::vector<ByteRange> needed = tasks.needed_bytes(chunk_);
  if (metadata.codecs.is_raw()) {
    for (const ByteRange& range : needed) read(part, range);
    take(thread, needed);
    return;
  }
  count_read(tasks.board(), watch_.elapsed(), part.dst.size(), part.dst.size());
  const std::uint64_t encoded = staging_.bytes().size();
  std::vector<ByteRange> ranges{{0, part.dst.size()}};
  const DecodeResult planned =
      metadata.codecs.partial_ranges(part.dst, encoded, metadata.chunk_bytes(), needed, ranges);
  if (!planned.ok() && planned.status != DecodeStatus::need_more) return tasks.fail_chunk(chunk_, planned);
  for (const ByteRange& range : std::span(ranges).subspan(1)) read(part, range);
  merge_ranges(ranges);
  if (planned.ok() && take(thread, ranges)) return;
  read(part, {0, encoded});  // the estimate was too small: all of it
  take(thread, {});
}

}  // namespace damacy
