#include "damacy/single/verifier.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "damacy/batch/stats_board.h"
#include "damacy/core/checked.h"
#include "damacy/store/storage_watch.h"
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

// Places that are checked one after the other, on one thread.
struct Verifier::Round {
  std::int64_t next, last;
  VerifyReport report = {};
  bool shard_is_open = false;  // that of `next`
  ByteRange reading = {};      // in it
  DecodeContext context = {};
  std::vector<std::byte> encoded = {}, decoded = {};
};

class Verifier::StoredArray {
 public:
  StoredArray(const std::string& uri, Catalog::MakeStore make_store)
      : catalog_(make_store ? Catalog(kLimits, std::move(make_store)) : Catalog(kLimits)),
        array_(catalog_.array(uri)),
        chunks_in_shard_(array_->chunks_in_shard()),
        shards_have_checksum_(std::ranges::any_of(
            array_->metadata().shards, [](const auto& shard) { return shard.codecs.always_has_checksum(); })) {
    const auto shards = product(array_->shard_grid().span());
    const auto places = shards ? checked_mul(*shards, places_per_shard()) : std::nullopt;
    places_ = places.value_or(std::numeric_limits<std::int64_t>::max());
  }

  std::int64_t places() const noexcept { return places_; }
  std::int64_t places_per_shard() const noexcept { return static_cast<std::int64_t>(array_->chunks_per_shard()); }

  void verify(Round& round);
  // Storage did not answer for the next place.
  void record_timeout(Round& round, Error why) const;

 private:
  std::int64_t end_of_shard(std::int64_t place) const { return (place / places_per_shard() + 1) * places_per_shard(); }
  std::optional<Dims> chunk_at(std::int64_t place) const;
  void verify_shard(Round& round, std::int64_t last);
  void verify_chunk(Round& round, const Shard& shard, const Dims& chunk);

  Catalog catalog_;
  std::shared_ptr<const Array> array_;
  Dims chunks_in_shard_;
  bool shards_have_checksum_;  // as a whole, around their chunks
  std::int64_t places_ = 0;
};

// Empty: beyond the array's edge.
std::optional<Dims> Verifier::StoredArray::chunk_at(std::int64_t place) const {
  const Dims shard = coordinates(place / places_per_shard(), array_->shard_grid());
  Dims chunk = coordinates(place % places_per_shard(), chunks_in_shard_);
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    chunk[axis] += shard[axis] * chunks_in_shard_[axis];
    if (chunk[axis] >= array_->grid()[axis]) return std::nullopt;
  }
  return chunk;
}

void Verifier::StoredArray::verify(Round& round) {
  while (round.next < round.last) verify_shard(round, std::min(round.last, end_of_shard(round.next)));
}

void Verifier::StoredArray::verify_shard(Round& round, std::int64_t last) {
  const bool is_first = round.next % places_per_shard() == 0;
  std::shared_ptr<const Shard> opened;
  round.shard_is_open = false;
  try {
    opened = catalog_.shard(*array_, coordinates(round.next / places_per_shard(), array_->shard_grid()));
    if (!opened) catalog_.check_missing_chunk(*array_);
  } catch (const std::exception&) {
    if (is_first) round.report.bad.push_back(current_error());  // once a shard
    round.next = last;
    return;
  }
  round.shard_is_open = true;
  for (; round.next < last; ++round.next) {
    const std::optional<Dims> chunk = chunk_at(round.next);
    if (!chunk) continue;
    if (opened)
      verify_chunk(round, *opened, *chunk);
    else
      ++round.report.missing;
  }
}

void Verifier::StoredArray::verify_chunk(Round& round, const Shard& shard, const Dims& chunk) {
  const ArrayMetadata& metadata = array_->metadata();
  VerifyReport& report = round.report;
  round.reading = {};
  try {
    const StoredChunk stored = find_stored_chunk(*array_, shard, array_->index_in_shard(chunk));
    if (stored.missing) {
      ++report.missing;
      return;
    }
    round.reading = {stored.offset, stored.offset + stored.bytes};
    const Stopwatch reading;
    round.encoded.resize(stored.bytes);
    shard.object->read_exact(stored.offset, round.encoded);
    report.read_ns += reading.elapsed().count();
    const Stopwatch decoding;
    round.decoded.resize(metadata.chunk_bytes());
    const std::vector<ByteRange> all{{0, round.decoded.size()}};
    const DecodeResult result = metadata.codecs.decode(round.encoded, round.decoded, all, round.context);
    if (!result.ok()) throw decode_error(result);
    report.decode_ns += decoding.elapsed().count();
    ++report.chunks;
    if (!shards_have_checksum_ && !metadata.codecs.has_checksum(round.encoded)) ++report.unguarded;
    report.encoded_bytes += stored.bytes;
    report.decoded_bytes += round.decoded.size();
  } catch (const std::exception&) {
    Error error = current_error();
    error.at_uri(array_->uri()).at_store(array_->store()->name()).at_key(shard.key);
    error.in_shard(!metadata.shards.empty());
    error.at_chunk({chunk.begin(), chunk.end()});
    if (round.reading.size() > 0) error.at_bytes(round.reading.begin, round.reading.end);
    report.bad.push_back(std::move(error));
  }
}

// The chunk, or all that is left of a shard that could not be opened.
void Verifier::StoredArray::record_timeout(Round& round, Error why) const {
  why.at_uri(array_->uri()).in_shard(!array_->metadata().shards.empty());
  if (!round.shard_is_open) {
    round.report.bad.push_back(std::move(why));
    round.next = std::min(round.last, end_of_shard(round.next));
    return;
  }
  if (const auto chunk = chunk_at(round.next++)) why.at_chunk({chunk->begin(), chunk->end()});
  if (round.reading.size() > 0) why.at_bytes(round.reading.begin, round.reading.end);
  round.report.bad.push_back(std::move(why));
}

Verifier::Verifier(const std::string& uri, StorageWaiting waiting) : Verifier(uri, nullptr, std::move(waiting)) {}

Verifier::Verifier(const std::string& uri, Catalog::MakeStore make_store, StorageWaiting waiting)
    : waiting_(std::move(waiting)) {
  try {
    array_ = storage_result(
        [uri, make_store = std::move(make_store)] { return std::make_shared<StoredArray>(uri, make_store); }, waiting_);
  } catch (Error& error) {
    throw error.at_uri(uri);
  }
  waiting_.while_waiting = [stopped = stopped_] {
    if (*stopped) throw Error(Status::shutdown, "the check was stopped", "closed");
  };
}

std::int64_t Verifier::places() const noexcept {
  return array_->places();
}

std::int64_t Verifier::places_per_shard() const noexcept {
  return array_->places_per_shard();
}

// A hung call keeps its round; a new round continues after it.
VerifyReport Verifier::verify(std::int64_t first, std::int64_t count) const {
  auto round = std::make_shared<Round>(Round{first, first + std::min(count, places() - first)});
  for (;;) {
    try {
      call_storage([array = array_, round] { array->verify(*round); }, waiting_);
      return std::move(round->report);
    } catch (const Error& error) {
      if (error.where().reason != "deadline") throw;
      round =
          std::make_shared<Round>(Round{round->next, round->last, round->report, round->shard_is_open, round->reading});
      array_->record_timeout(*round, error);
    }
  }
}

}  // namespace damacy
