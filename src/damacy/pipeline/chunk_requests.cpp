#include "damacy/pipeline/chunk_requests.h"

#include <algorithm>

#include "damacy/core/limits.h"
#include "damacy/io/coalesce.h"
#include "damacy/pipeline/place.h"

namespace damacy {
namespace {

constexpr std::size_t kFillsATask = 64;
// Below this many bytes one read of everything is quicker than two of parts.
constexpr std::uint64_t kPartialFrom = 512 << 10;

}  // namespace

// Raw chunks without a checksum, and chunks of a codec that can decode parts, when at most three quarters are needed.
bool ChunkTasks::worth_reading_partially(std::size_t shard, std::size_t chunk) const {
  const CodecChain& codecs = array_of(shard).metadata().codecs;
  if (where_[chunk].bytes < kPartialFrom || !(codecs.is_raw() || codecs.can_read_partially())) return false;
  std::uint64_t needed = 0;
  for (const ByteRange& range : needed_bytes(array_of(shard), plan_.chunks[chunk])) needed += range.size();
  return needed <= array_of(shard).metadata().chunk_bytes() / 4 * 3;
}

std::vector<std::unique_ptr<Request>> ChunkTasks::make_requests(const std::shared_ptr<ChunkTasks>& tasks) {
  std::vector<std::unique_ptr<Request>> requests;
  std::vector<std::uint32_t> missing;
  std::vector<Piece> pieces;
  const auto flush_missing = [&] {
    if (!missing.empty()) requests.push_back(std::make_unique<FillTask>(tasks, std::move(missing)));
    missing.clear();
  };
  for (std::size_t s = 0; s < tasks->plan_.shards.size(); ++s) {
    pieces.clear();
    const PlannedShard& shard = tasks->plan_.shards[s];
    for (std::uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunk_count; ++c) {
      const Where& where = tasks->where_[c];
      if (where.failed) continue;
      if (where.missing) {
        missing.push_back(c);
        if (missing.size() == kFillsATask) flush_missing();
      } else if (tasks->worth_reading_partially(s, c)) {
        requests.push_back(std::make_unique<PartialRead>(tasks, s, c));
      } else {
        pieces.push_back({where.offset, where.bytes, c});
      }
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
    for (const MergedRead& merged : coalesce(pieces)) {
      std::vector<std::uint32_t> chunks;
      for (const Piece& piece : std::span(pieces).subspan(merged.first, merged.count))
        chunks.push_back(static_cast<std::uint32_t>(piece.id));
      requests.push_back(std::make_unique<ChunkRunRead>(tasks, s, merged.offset, merged.size, std::move(chunks)));
    }
  }
  flush_missing();
  return requests;
}

ChunkRunRead::ChunkRunRead(std::shared_ptr<ChunkTasks> tasks, std::size_t shard, std::uint64_t offset,
                           std::uint64_t bytes, std::vector<std::uint32_t> chunks)
    : tasks_(std::move(tasks)), shard_(shard), offset_(offset), bytes_(bytes), chunks_(std::move(chunks)) {
  tasks_->open_.fetch_add(1);
  tasks_->job_->open_read();
}

ChunkRunRead::~ChunkRunRead() {
  staging_ = {};
  tasks_->close_task();
}

Part ChunkRunRead::prepare(std::size_t, std::stop_token stop) {
  stop_ = stop;
  staging_ = tasks_->place_.staging.take(bytes_, std::move(stop));
  watch_ = {};
  return {tasks_->shards_[shard_]->object, offset_, staging_.bytes()};
}

std::span<const std::byte> ChunkRunRead::bytes_of_chunk(std::uint32_t chunk) const noexcept {
  const auto& where = tasks_->where_[chunk];
  return staging_.bytes().subspan(where.offset - offset_, where.bytes);
}

void ChunkRunRead::complete(std::size_t thread, const Part& part, const Error* failure) noexcept {
  tasks_->job_->close_read();
  StatsBoard& board = tasks_->place_.board;
  if (failure != nullptr) return read_one_by_one(thread, part, *failure);
  std::uint64_t wanted = 0;
  for (const std::uint32_t chunk : chunks_) wanted += tasks_->where_[chunk].bytes;
  board.record(&Stats::io, watch_.elapsed(), static_cast<double>(bytes_), static_cast<double>(wanted));
  board.add(&Stats::reads_issued, 1);
  board.add(&Stats::bytes_read, static_cast<std::int64_t>(bytes_));
  for (const std::uint32_t chunk : chunks_)
    tasks_->place_packed(thread, shard_, chunk, bytes_of_chunk(chunk), {}, stop_);
}

// A merged read fails as a whole; the chunks that can be read must not suffer for the one that cannot.
void ChunkRunRead::read_one_by_one(std::size_t thread, const Part& part, const Error& failure) noexcept {
  const bool again = chunks_.size() > 1 && part.object && failure.status() == Status::io && !stop_.stop_requested();
  for (const std::uint32_t chunk : chunks_) {
    if (!again) {
      tasks_->fail_chunk(shard_, chunk, failure);
      continue;
    }
    try {
      const auto& where = tasks_->where_[chunk];
      part.object->read_exact(where.offset, staging_.bytes().subspan(where.offset - offset_, where.bytes));
      tasks_->place_packed(thread, shard_, chunk, bytes_of_chunk(chunk), {}, stop_);
    } catch (const Error& error) {
      tasks_->fail_chunk(shard_, chunk, error);
    }
  }
}

PartialRead::PartialRead(std::shared_ptr<ChunkTasks> tasks, std::size_t shard, std::uint32_t chunk)
    : tasks_(std::move(tasks)), shard_(shard), chunk_(chunk) {
  tasks_->open_.fetch_add(1);
  tasks_->job_->open_read();
}

PartialRead::~PartialRead() {
  staging_ = {};
  tasks_->close_task();
}

Part PartialRead::prepare(std::size_t, std::stop_token stop) {
  stop_ = stop;
  const auto& where = tasks_->where_[chunk_];
  staging_ = tasks_->place_.staging.take(where.bytes, std::move(stop));
  watch_ = {};
  const bool raw = tasks_->array_of(shard_).metadata().codecs.is_raw();
  const std::size_t head = raw ? 0 : std::min<std::size_t>(CodecChain::kHeadBytes, where.bytes);
  return {tasks_->shards_[shard_]->object, where.offset, staging_.bytes().first(head)};
}

void PartialRead::complete(std::size_t thread, const Part& part, const Error* failure) noexcept {
  try {
    if (failure != nullptr) throw Error(*failure);
    read_needed(thread, part);
  } catch (const Error& error) {
    tasks_->fail_chunk(shard_, chunk_, error);
  } catch (const std::exception& error) {
    tasks_->fail_chunk(shard_, chunk_, Error(Status::oom, error.what(), "memory"));
  }
  tasks_->job_->close_read();
}

void PartialRead::read(const Part& part, ByteRange range) {
  watch_ = {};
  part.object->read_exact(part.offset + range.begin, staging_.bytes().subspan(range.begin, range.size()));
  StatsBoard& board = tasks_->place_.board;
  board.record(&Stats::io, watch_.elapsed(), static_cast<double>(range.size()), static_cast<double>(range.size()));
  board.add(&Stats::reads_issued, 1);
  board.add(&Stats::bytes_read, static_cast<std::int64_t>(range.size()));
}

void PartialRead::read_needed(std::size_t thread, const Part& part) {
  const Array& array = tasks_->array_of(shard_);
  const CodecChain& codecs = array.metadata().codecs;
  const std::vector<ByteRange> needed = tasks_->needed_bytes(array, tasks_->plan_.chunks[chunk_]);
  if (codecs.is_raw()) {
    for (const ByteRange& range : needed) read(part, range);
    tasks_->place_packed(thread, shard_, chunk_, staging_.bytes(), {}, stop_);
    return;
  }
  StatsBoard& board = tasks_->place_.board;
  const auto head = static_cast<double>(part.dst.size());
  board.record(&Stats::io, watch_.elapsed(), head, head);
  board.add(&Stats::reads_issued, 1);
  board.add(&Stats::bytes_read, static_cast<std::int64_t>(part.dst.size()));

  const std::uint64_t encoded = staging_.bytes().size();
  std::vector<ByteRange> ranges{{0, part.dst.size()}};
  const DecodeResult planned = codecs.partial_ranges(part.dst, encoded, array.metadata().chunk_bytes(), needed, ranges);
  if (!planned.ok() && planned.status != DecodeStatus::need_more)
    return tasks_->fail_chunk(shard_, chunk_, tasks_->word(planned));
  for (const ByteRange& range : std::span(ranges).subspan(1)) read(part, range);
  merge_ranges(ranges);
  if (planned.ok() && tasks_->place_packed(thread, shard_, chunk_, staging_.bytes(), ranges, stop_)) return;
  read(part, {0, encoded});  // the estimate was too small: all of it
  tasks_->place_packed(thread, shard_, chunk_, staging_.bytes(), {}, stop_);
}

FillTask::FillTask(std::shared_ptr<ChunkTasks> tasks, std::vector<std::uint32_t> chunks)
    : tasks_(std::move(tasks)), chunks_(std::move(chunks)) {
  tasks_->open_.fetch_add(1);
}

FillTask::~FillTask() {
  tasks_->close_task();
}

Part FillTask::prepare(std::size_t, std::stop_token) {
  return {};
}

void FillTask::complete(std::size_t, const Part&, const Error* failure) noexcept {
  for (const std::uint32_t chunk : chunks_) {
    const std::size_t shard = tasks_->shard_of_chunk_[chunk];
    if (failure != nullptr)
      tasks_->fail_chunk(shard, chunk, *failure);
    else
      tasks_->fill_chunk(shard, chunk);
  }
}

}  // namespace damacy
