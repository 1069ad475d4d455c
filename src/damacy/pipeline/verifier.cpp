#include "damacy/pipeline/verifier.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "damacy/pipeline/chunk_tasks.h"
#include "damacy/zarr/decode_error.h"
#include "damacy/zarr/stored_chunk.h"

namespace damacy {
namespace {

constexpr Catalog::Limits kLimits{};

Dims coordinates(std::int64_t number, const Dims& grid) noexcept {
  Dims at(grid.size(), 0);
  for (std::size_t axis = grid.size(); axis-- > 0;) {
    at[axis] = number % grid[axis];
    number /= grid[axis];
  }
  return at;
}

}  // namespace

// What one call keeps between chunks.
struct Verifier::Work {
  VerifyReport report;
  DecodeContext context;
  std::vector<std::byte> encoded, decoded;
};

Verifier::Verifier(const std::string& uri)
    : catalog_(kLimits), array_(catalog_.array(uri)), chunks_in_shard_(array_->chunks_in_shard()) {
  const auto shards = product(array_->shard_grid().span());
  const auto places = shards ? checked_mul(*shards, places_per_shard()) : std::nullopt;
  places_ = places.value_or(std::numeric_limits<std::int64_t>::max());
}

VerifyReport Verifier::verify(std::int64_t first, std::int64_t count) const {
  Work work;
  const std::int64_t last = std::min(count, places_ - first) + first;
  while (first < last) {
    const std::int64_t shard = first / places_per_shard();
    const std::int64_t begin = shard * places_per_shard();
    const std::int64_t end = std::min(last - begin, places_per_shard());
    verify_in_shard(work, shard, first - begin, end);
    first = begin + end;
  }
  return std::move(work.report);
}

void Verifier::verify_in_shard(Work& work, std::int64_t shard, std::int64_t first, std::int64_t last) const {
  const Dims shard_at = coordinates(shard, array_->shard_grid());
  std::shared_ptr<const Shard> opened;
  try {
    opened = catalog_.shard(*array_, shard_at);
    if (!opened) catalog_.check_missing_chunk(*array_);
  } catch (...) {
    if (first == 0) work.report.bad.push_back(current_error());  // once a shard
    return;
  }
  for (std::int64_t place = first; place < last; ++place) {
    Dims chunk = coordinates(place, chunks_in_shard_);
    bool inside = true;
    for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
      chunk[axis] += shard_at[axis] * chunks_in_shard_[axis];
      inside = inside && chunk[axis] < array_->grid()[axis];
    }
    if (!inside) continue;
    if (opened)
      verify_chunk(work, *opened, chunk);
    else
      ++work.report.missing;
  }
}

void Verifier::verify_chunk(Work& work, const Shard& shard, const Dims& chunk) const {
  const ArrayMetadata& metadata = array_->metadata();
  StoredChunk stored;
  try {
    stored = find_stored_chunk(*array_, shard, array_->index_in_shard(chunk));
    if (stored.missing) {
      ++work.report.missing;
      return;
    }
    const Stopwatch reading;
    work.encoded.resize(stored.bytes);
    shard.object->read_exact(stored.offset, work.encoded);
    work.report.read_ns += reading.elapsed().count();
    const Stopwatch decoding;
    work.decoded.resize(metadata.chunk_bytes());
    const std::vector<ByteRange> all{{0, work.decoded.size()}};
    const DecodeResult result = metadata.codecs.decode(work.encoded, work.decoded, all, work.context);
    if (!result.ok()) throw decode_error(result);
    work.report.decode_ns += decoding.elapsed().count();
    ++work.report.chunks;
    work.report.encoded_bytes += stored.bytes;
    work.report.decoded_bytes += work.decoded.size();
  } catch (...) {
    Error error = current_error();
    error.at_uri(array_->uri()).at_store(array_->store()->name()).at_key(shard.key);
    error.at_chunk({chunk.begin(), chunk.end()});
    if (stored.bytes > 0) error.at_bytes(stored.offset, stored.offset + stored.bytes);
    work.report.bad.push_back(std::move(error));
  }
}

}  // namespace damacy
