#include "damacy/pipeline/chunk_task.h"

#include <algorithm>
#include <exception>

#include "damacy/core/limits.h"
#include "damacy/core/text.h"
#include "damacy/pipeline/chunk_requests.h"
#include "damacy/pipeline/place.h"

namespace damacy {
namespace {

// The error in flight; anything but ours (bad_alloc) becomes one of ours.
Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(Status::oom, "no memory left on the host", "memory");
  } catch (const std::exception& error) {
    return Error(Status::io, text("internal: ", std::string_view(error.what())), "io");
  }
}

std::vector<std::int64_t> as_vector(const Dims& dims) {
  return {dims.begin(), dims.end()};
}

}  // namespace

ChunkTasks::ChunkTasks(std::shared_ptr<BatchJob> job, BatchPlan plan, const Place& place)
    : job_(std::move(job)),
      plan_(std::move(plan)),
      place_(place),
      shards_(plan_.shards.size()),
      shard_failed_(plan_.shards.size(), 0),
      where_(plan_.chunks.size()),
      shard_of_chunk_(plan_.chunks.size()) {
  job_->open_task();
  for (std::uint32_t s = 0; s < plan_.shards.size(); ++s)
    for (std::uint32_t c = 0; c < plan_.shards[s].chunk_count; ++c)
      shard_of_chunk_[plan_.shards[s].first_chunk + c] = s;
}

void ChunkTasks::open_shard(std::size_t shard, Catalog& catalog) noexcept {
  const Array& array = array_of(shard);
  try {
    shards_[shard] = catalog.shard(array, plan_.shards[shard].shard);
    if (!shards_[shard]) catalog.check_missing_chunk(array);
  } catch (...) {
    shard_failed_[shard] = 1;
    fail_shard(shard, current_error());
  }
}

void ChunkTasks::find_chunks() {
  for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
    const std::size_t shard = shard_of_chunk_[c];
    try {
      where_[c] = locate(shard, plan_.chunks[c]);
    } catch (...) {
      where_[c].failed = true;
      fail_chunk(shard, c, current_error());
    }
  }
}

ChunkTasks::Where ChunkTasks::locate(std::size_t shard, const PlannedChunk& chunk) const {
  if (shard_failed_[shard]) return {.failed = true};
  if (!shards_[shard]) return {.missing = true};
  const Shard& opened = *shards_[shard];
  if (opened.index) {
    const auto range = opened.index->find(chunk.index_in_shard);
    return range ? Where{range->begin, range->size()} : Where{.missing = true};
  }
  const Array& array = array_of(shard);
  const std::uint64_t stored = opened.object->stamp().size;
  const CodecChain& codecs = array.metadata().codecs;
  if (codecs.fixed_size()) {
    const std::uint64_t exact = codecs.fixed_encoded_size(array.metadata().chunk_bytes());
    if (stored < exact)
      throw Error(Status::io, text("short read: ", stored, " of ", exact, " bytes"), "short-read").at_bytes(0, exact);
    if (stored > exact)
      throw Error(Status::decode, text("the object holds ", stored, " bytes, its chunk is ", exact), "size")
          .at_bytes(0, stored);
  } else if (stored > array.max_encoded_chunk_bytes()) {
    throw Error(Status::inval,
                text("an encoded chunk of ", stored, " bytes exceeds the limit of ", array.max_encoded_chunk_bytes()),
                "limit")
        .at_bytes(0, stored);
  }
  return {0, stored};
}

std::vector<ByteRange> ChunkTasks::needed_bytes(const Array& array, const PlannedChunk& chunk) const {
  const Box box = array.box_of_chunk(chunk_coordinates(array, chunk.number));
  std::vector<ByteRange> ranges;
  for (const std::uint32_t row : rows_of(chunk)) ranges.push_back(bytes_of(array, box, wanted(*job_, row, box)));
  merge_ranges(ranges);
  return ranges;
}

bool ChunkTasks::place_packed(std::size_t thread, std::size_t shard, std::size_t chunk,
                              std::span<const std::byte> packed, std::span<const ByteRange> available,
                              std::stop_token stop) noexcept {
  try {
    const Array& array = array_of(shard);
    const PlannedChunk& planned = plan_.chunks[chunk];
    const CodecChain& codecs = array.metadata().codecs;
    if (codecs.is_raw()) {
      encoded_bytes_ += static_cast<std::int64_t>(packed.size());
      decoded_bytes_ += static_cast<std::int64_t>(packed.size());
      place_decoded(array, planned, packed);
      return true;
    }

    const std::size_t decoded_size = array.metadata().chunk_bytes();
    const Arena::Piece scratch = place_.scratch.take(decoded_size, stop);
    const std::vector<ByteRange> needed = needed_bytes(array, planned);
    const Stopwatch watch;
    DecodeContext& context = place_.contexts[thread];
    const DecodeResult result = available.empty()
                                    ? codecs.decode(packed, scratch.bytes(), needed, context)
                                    : codecs.decode_partial(packed, available, scratch.bytes(), needed, context);
    decode_ns_ += watch.elapsed().count();
    encoded_bytes_ += static_cast<std::int64_t>(packed.size());
    decoded_bytes_ += static_cast<std::int64_t>(decoded_size);
    if (result.status == DecodeStatus::need_more && !available.empty()) return false;
    if (result.ok())
      place_decoded(array, planned, scratch.bytes());
    else
      fail_chunk(shard, chunk, word(result));
  } catch (...) {
    fail_chunk(shard, chunk, current_error());
  }
  return true;
}

void ChunkTasks::place_decoded(const Array& array, const PlannedChunk& chunk, std::span<const std::byte> decoded) {
  const Stopwatch watch;
  const Box box = array.box_of_chunk(chunk_coordinates(array, chunk.number));
  std::int64_t elements = 0;
  for (const std::uint32_t row : rows_of(chunk)) {
    const Box part = wanted(*job_, row, box);
    place_chunk(*job_, row, box, part, decoded);
    elements += *product(part.extents().span());
  }
  place_ns_ += watch.elapsed().count();
  used_bytes_ += elements * static_cast<std::int64_t>(size_of(array.metadata().dtype));
  placed_bytes_ += elements * static_cast<std::int64_t>(size_of(job_->shape().dtype));
  place_.board.add(&Stats::chunks_decoded, 1);
  place_.board.add(&Stats::chunks_decoded_on_host, 1);
  place_.board.add(&Stats::chunks_deduplicated, chunk.use_count - 1);
}

void ChunkTasks::fill_chunk(std::size_t shard, std::size_t chunk) noexcept {
  const Array& array = array_of(shard);
  const Box box = array.box_of_chunk(chunk_coordinates(array, plan_.chunks[chunk].number));
  for (const std::uint32_t row : rows_of(plan_.chunks[chunk])) {
    try {
      Box part = wanted(*job_, row, box);
      const Box& whole = job_->rows()[row].box;
      for (std::size_t i = 0; i < part.rank(); ++i) {
        part.start[i] -= whole.start[i];
        part.stop[i] -= whole.start[i];
      }
      place_fill(*job_, row, part);
    } catch (...) {
      job_->fail(row, current_error());
    }
  }
}

Error ChunkTasks::word(const DecodeResult& result) const {
  std::string message = result.detail;
  if (result.seen != 0 || result.expected != 0) message += text(": ", result.seen, ", expected ", result.expected);
  const std::string reason(reason_of(result.status));
  if (result.status == DecodeStatus::unsupported) return Error::unsupported(std::move(message), reason);
  return Error(result.status == DecodeStatus::limit ? Status::inval : Status::decode, std::move(message), reason);
}

void ChunkTasks::fail_chunk(std::size_t shard, std::size_t chunk, Error error) noexcept {
  const Array& array = array_of(shard);
  const PlannedChunk& planned = plan_.chunks[chunk];
  error.at_uri(array.uri()).at_store(array.store()->name()).at_key(array.key_of_shard(plan_.shards[shard].shard));
  error.at_chunk(as_vector(chunk_coordinates(array, planned.number)));
  if (where_[chunk].bytes > 0) error.at_bytes(where_[chunk].offset, where_[chunk].offset + where_[chunk].bytes);
  for (const std::uint32_t row : rows_of(planned)) job_->fail(row, error);
}

void ChunkTasks::fail_shard(std::size_t shard, const Error& error) noexcept {
  const PlannedShard& planned = plan_.shards[shard];
  for (std::size_t c = 0; c < planned.chunk_count; ++c) {
    Error copy = error;
    const Array& array = array_of(shard);
    copy.at_uri(array.uri()).at_store(array.store()->name()).at_key(array.key_of_shard(planned.shard));
    for (const std::uint32_t row : rows_of(plan_.chunks[planned.first_chunk + c])) job_->fail(row, copy);
  }
}

void ChunkTasks::close_task() noexcept {
  if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1) settle();
}

// After the last read: what was read must still be what is there, or rows could mix two versions of an object.
void ChunkTasks::check_unchanged() noexcept {
  std::vector<std::uint8_t> array_failed(plan_.arrays.size(), 0);
  std::vector<std::optional<Error>> errors(plan_.arrays.size());
  for (std::size_t a = 0; a < plan_.arrays.size(); ++a) {
    try {
      place_.catalog.check_unchanged(*plan_.arrays[a]);
    } catch (...) {
      errors[a] = current_error();
    }
  }
  for (std::size_t s = 0; s < plan_.shards.size(); ++s) {
    if (shard_failed_[s]) continue;
    try {
      if (errors[plan_.shards[s].array]) throw Error(*errors[plan_.shards[s].array]);
      if (shards_[s]) place_.catalog.check_unchanged(array_of(s), *shards_[s]);
    } catch (...) {
      fail_shard(s, current_error());
    }
  }
}

void ChunkTasks::settle() noexcept {
  check_unchanged();
  using std::chrono::nanoseconds;
  if (decoded_bytes_ > 0)
    place_.board.record(&Stats::decompress, nanoseconds(decode_ns_), static_cast<double>(encoded_bytes_),
                        static_cast<double>(decoded_bytes_));
  if (placed_bytes_ > 0)
    place_.board.record(&Stats::assemble, nanoseconds(place_ns_), static_cast<double>(used_bytes_),
                        static_cast<double>(placed_bytes_));
  shards_.clear();
  job_->close_task(place_.board);
}

}  // namespace damacy
