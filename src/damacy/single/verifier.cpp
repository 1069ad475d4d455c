#include "damacy/single/verifier.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <optional>
#include <utility>

#include "damacy/core/checked.h"
#include "damacy/core/mutex.h"
#include "damacy/core/on_failure.h"
#include "damacy/core/task.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/zarr/decode_error.h"
#include "damacy/zarr/shard.h"

namespace damacy {
namespace {

constexpr std::int64_t kPlaces = 256;                  // of one request, at most
constexpr auto kLook = std::chrono::milliseconds(50);  // between two looks for storage calls beyond their deadline

Dims coordinates(std::int64_t number, const Dims& grid) noexcept {
  Dims at(grid.size(), 0);
  for (std::size_t axis = grid.size(); axis-- > 0;) {
    at[axis] = number % grid[axis];
    number /= grid[axis];
  }
  return at;
}

}  // namespace

// An opened array, and the places of its chunks. Shared with threads that storage holds.
class ArrayPlaces {
 public:
  ArrayPlaces(const std::string& uri, Catalog::MakeStore make_store)
      : catalog_(make_store ? Catalog({}, std::move(make_store)) : Catalog(Catalog::Limits{})),
        array_(catalog_.array(uri)) {}

  const Array& array() const noexcept { return *array_; }
  std::int64_t count() const noexcept {
    const auto shards = product(array_->shard_grid().span());
    const auto places = shards ? checked_mul(*shards, per_shard()) : std::nullopt;
    return places.value_or(std::numeric_limits<std::int64_t>::max());
  }
  std::int64_t end_of_shard(std::int64_t place) const noexcept { return (place / per_shard() + 1) * per_shard(); }
  // The end of the shard, or of the last of those behind it that are parts of the same object or need no request. At
  // most `end`, but not within the first shard unless it ends there.
  std::int64_t end_of_whole(std::int64_t place, std::int64_t end) const {
    std::int64_t next = end_of_shard(place);
    const void* const whole = whole_of(place);
    const auto is_joined = [&](const void* other) { return other == nullptr || other == whole; };
    while (whole != nullptr && next < end && is_joined(whole_of(next))) next = end_of_shard(next);
    return std::min(next, end);
  }
  std::string key_of(std::int64_t place) const { return array_->key_of_shard(shard_at(place)); }
  // Null: it is not stored.
  std::shared_ptr<const Shard> open_shard(std::int64_t place) const {
    const Dims at = shard_at(place);
    auto shard = catalog_.shard(*array_, at);
    if (!shard) catalog_.check_missing_chunk(*array_, array_->key_of_shard(at));
    return shard;
  }
  // Empty: beyond the array's edge.
  std::optional<Dims> chunk_at(std::int64_t place) const noexcept {
    Dims chunk = array_->first_chunk_of(shard_at(place));
    const Dims inside = coordinates(place % per_shard(), array_->chunks_in_shard());
    for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
      chunk[axis] += inside[axis];
      if (chunk[axis] >= array_->grid()[axis]) return std::nullopt;
    }
    return chunk;
  }

 private:
  std::int64_t per_shard() const noexcept { return static_cast<std::int64_t>(array_->chunks_per_shard()); }
  Dims shard_at(std::int64_t place) const noexcept { return coordinates(place / per_shard(), array_->shard_grid()); }
  const void* whole_of(std::int64_t place) const { return array_->store()->whole_id(key_of(place)); }

  mutable Catalog catalog_;
  std::shared_ptr<const Array> array_;
};

namespace {

// One call of verify(). Its places are cut into ranges, each of one shard or of shards that are parts of one object; a
// few ranges are under way.
class VerifyJob final : public Job, public std::enable_shared_from_this<VerifyJob> {
 public:
  VerifyJob(std::shared_ptr<const ArrayPlaces> of, SelectionReaders& with, std::int64_t first, std::int64_t last)
      : array(std::move(of)),
        readers(with),
        memory(with.memory_for(array->array(), with.threads().contexts().size())),
        next_(first),
        last_(last) {}

  std::future<void> start();
  void cancel() noexcept { cancelled_ = true; }
  const std::atomic<bool>& cancelled() const noexcept { return cancelled_; }
  void check_wanted() const {
    if (cancelled_) throw Error(Status::shutdown, "the check was stopped", "closed");
  }
  std::int64_t done() const noexcept { return done_; }
  VerifyReport report();  // after the end

  template <class Add>
  void add(Add add_to) noexcept {
    const Lock lock(mutex_);
    try {
      add_to(report_);
    } catch (const std::exception&) {
      failure_ = current_error();
    }
  }
  void fail(const Error& why) noexcept {
    const Lock lock(mutex_);
    failure_ = why;
  }
  void end_range(std::int64_t places) noexcept {
    done_ += places;
    submit_next();
  }

  const std::shared_ptr<const ArrayPlaces> array;
  SelectionReaders& readers;
  const std::shared_ptr<ReadMemory> memory;
  StatsBoard board;

 private:
  void submit_next() noexcept;
  void submit_one();
  void settle() noexcept override { ended_.set_value(); }

  std::promise<void> ended_;
  std::atomic<bool> cancelled_{false};
  std::atomic<std::int64_t> done_{0};
  std::atomic<std::int64_t> to_submit_{0};  // ranges
  std::int64_t next_;                       // of the thread that submits
  const std::int64_t last_;
  Mutex mutex_;
  VerifyReport report_ DAMACY_GUARDED_BY(mutex_);
  std::optional<Error> failure_ DAMACY_GUARDED_BY(mutex_);  // of the report
};

// The chunks at the places of a range: decodes all of each, and reports. The end of the last one starts another range.
class VerifySink final : public Job,
                         public FetchedChunks,
                         public ChunkSink,
                         public std::enable_shared_from_this<VerifySink> {
 public:
  VerifySink(const std::shared_ptr<VerifyJob>& job, std::int64_t first, std::int64_t last)
      : job_(job), task_(job), first_(first), last_(last), opening_(first) {
    wants_.arrays = {&array().metadata()};
  }

  OpeningRead::Opened open();

  std::vector<ByteRange> needed_bytes(std::size_t) const override {
    return {{0, static_cast<std::uint64_t>(array().metadata().chunk_bytes())}};
  }
  StatsBoard& board() const noexcept override { return job_->board; }
  Task<Job> new_task() noexcept override { return Task<Job>(shared_from_this()); }
  void check_wanted() const override { job_->check_wanted(); }
  const std::atomic<bool>* cancelled() const noexcept override { return &job_->cancelled(); }
  void count_decode(StatsBoard::Span time, std::uint64_t, std::uint64_t) noexcept override {
    job_->add([&](VerifyReport& report) { report.decode_ns += time.count(); });
  }
  void fail_chunk(std::size_t chunk, const Error& error) noexcept override;
  void fail_all(const Error& error) noexcept override;

  FetchedChunks& chunks() noexcept override { return *this; }
  ReadBuffer buffer(std::uint64_t bytes, std::stop_token stop) override {
    return take_buffer(job_->memory->staging, bytes, std::move(stop));
  }
  void fail_read(std::size_t chunk, const Error& why) noexcept override { fail_chunk(chunk, why); }
  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed, std::span<const ByteRange>,
            std::stop_token stop) noexcept override;

 private:
  const Array& array() const noexcept { return job_->array->array(); }
  void open_shard();
  void locate(std::size_t chunk, const Shard* shard);
  std::string key_of(std::size_t chunk) const { return array().key_of_shard(array().shard_of_chunk(at_[chunk])); }
  void fail_shard(std::int64_t place, const Error& error) noexcept;
  void count_good(std::span<const std::byte> packed) noexcept;
  template <class Add>
  void add_bad(const Error& error, Add add) noexcept {
    job_->add([&](VerifyReport& report) {
      report.bad.push_back(extended(error, [&](Error& full) {
        full.at_uri(array().uri());
        add(full);
      }));
    });
  }
  void settle() noexcept override {
    job_->end_range(last_ - first_);
    task_.end();
  }

  const std::shared_ptr<VerifyJob> job_;  // has what threads that storage holds still use
  Task<VerifyJob> task_;
  const std::int64_t first_, last_;
  std::int64_t opening_;  // the first place of the shard that is opened; last_: all are
  std::vector<Dims> at_;  // of the chunks
};

OpeningRead::Opened VerifySink::open() {
  const auto most = static_cast<std::size_t>(last_ - first_);
  wants_.objects.reserve(most);
  wants_.chunks.reserve(most);
  at_.reserve(most);
  while (opening_ < last_) {
    check_wanted();
    if (const auto failure = failure_of([&] { open_shard(); })) {
      check_wanted();
      fail_shard(opening_, *failure);
    }
    opening_ = std::min(last_, job_->array->end_of_shard(opening_));
  }
  return {shared_from_this(), find_reads(wants_)};
}

void VerifySink::open_shard() {
  std::shared_ptr<const Shard> shard;
  while_wanted([&] { shard = job_->array->open_shard(opening_); });
  const auto number = static_cast<std::uint32_t>(wants_.objects.size());
  wants_.objects.push_back(shard ? shard->object : nullptr);
  const std::int64_t end = std::min(last_, job_->array->end_of_shard(opening_));
  for (std::int64_t place = opening_; place < end; ++place) {
    const auto chunk = job_->array->chunk_at(place);
    if (!chunk) continue;
    at_.push_back(*chunk);
    wants_.chunks.push_back({.object = number});
    locate(at_.size() - 1, shard.get());
    if (wants_.chunks.back().place.missing) job_->add([](VerifyReport& report) { ++report.missing; });
  }
}

void VerifySink::locate(std::size_t chunk, const Shard* shard) {
  ChunkPlace& place = wants_.chunks[chunk].place;
  const auto failure = failure_of([&] { place = place_of_chunk(array(), shard, array().index_in_shard(at_[chunk])); });
  if (!failure) return;
  place.failed = true;
  fail_chunk(chunk, *failure);
}

bool VerifySink::take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
                      std::span<const ByteRange>, std::stop_token stop) noexcept {
  const auto failure = failure_of([&] {
    check_wanted();
    const std::vector<ByteRange> all = needed_bytes(chunk);
    const Arena::Piece decoded = job_->memory->scratch.take(all.front().size(), std::move(stop));
    DecodeContext& context = job_->readers.threads().contexts()[thread];
    const DecodeResult result = decode_chunk(*this, chunk, packed, {}, all, decoded.bytes(), context);
    if (!result.ok()) throw decode_error(result);
    count_good(packed);
  });
  if (failure) fail_chunk(chunk, *failure);
  return true;
}

// Checksums of a shard as a whole are around its chunks.
void VerifySink::count_good(std::span<const std::byte> packed) noexcept {
  const ArrayMetadata& metadata = array().metadata();
  const bool is_guarded =
      metadata.codecs.has_checksum(packed) ||
      std::ranges::any_of(metadata.shards, [](const auto& level) { return level.codecs.always_has_checksum(); });
  job_->add([&](VerifyReport& report) {
    ++report.chunks;
    report.unguarded += is_guarded ? 0 : 1;
    report.encoded_bytes += packed.size();
    report.decoded_bytes += static_cast<std::uint64_t>(metadata.chunk_bytes());
  });
}

// Errors have their place, except whether that is a shard.
void VerifySink::fail_shard(std::int64_t place, const Error& error) noexcept {
  const bool is_shard = error.where().reason == "deadline" && !array().metadata().shards.empty();
  add_bad(error, [&](Error& located) {
    if (place != opening_) located.moved_to(array().store()->name(), job_->array->key_of(place));
    located.in_shard(is_shard);
  });
}

// Storage does not answer for the shard that is opened. The others are parts of the same object, and are not read.
void VerifySink::fail_all(const Error& error) noexcept {
  for (std::size_t c = 0; c < wants_.chunks.size(); ++c) {
    if (where(c).missing || where(c).failed) continue;
    fail_chunk(c, extended(error, [&](Error& at) { at.moved_to(array().store()->name(), key_of(c)); }));
  }
  for (std::int64_t place = opening_; place < last_; place = job_->array->end_of_shard(place)) fail_shard(place, error);
}

void VerifySink::fail_chunk(std::size_t chunk, const Error& error) noexcept {
  const ChunkPlace& place = where(chunk);
  add_bad(error, [&](Error& located) {
    located.at_store(array().store()->name()).at_key(key_of(chunk)).in_shard(!array().metadata().shards.empty());
    located.at_chunk({at_[chunk].begin(), at_[chunk].end()});
    if (place.bytes > 0) located.at_bytes(place.offset, place.offset + place.bytes);
  });
}

std::future<void> VerifyJob::start() {
  const Task task(shared_from_this());
  for (std::size_t i = 0; i < 2 * readers.threads().contexts().size(); ++i) submit_next();
  return ended_.get_future();
}

// One thread submits at a time: a request that no engine takes ends on this thread, and asks for the next one.
void VerifyJob::submit_next() noexcept {
  if (to_submit_++ > 0) return;
  do
    if (const auto failure = failure_of([&] { submit_one(); })) fail(*failure);
  while (--to_submit_ > 0);
}

void VerifyJob::submit_one() {
  if (cancelled_ || next_ >= last_) return;
  const std::int64_t first = next_;
  next_ = array->end_of_whole(first, std::min(last_, first + kPlaces));
  const auto range = std::make_shared<VerifySink>(shared_from_this(), first, next_);
  readers.threads().submit(std::make_unique<OpeningRead>(readers.threads(), range, [range] { return range->open(); }));
}

// Every range of a shard that cannot be opened has reported it.
VerifyReport VerifyJob::report() {
  const Lock lock(mutex_);
  if (failure_) throw *failure_;
  const auto place = [](const Error& bad) { return std::pair(bad.where().key, bad.where().chunk); };
  std::ranges::sort(report_.bad, {}, place);
  const auto again = std::ranges::unique(report_.bad, {}, place);
  report_.bad.erase(again.begin(), again.end());
  report_.read_ns = static_cast<std::int64_t>(board.read().io.ms * 1e6);
  return std::move(report_);
}

}  // namespace

Verifier::Verifier(const std::string& uri, std::shared_ptr<SelectionReaders> readers, const StorageWaiting& waiting,
                   Catalog::MakeStore make_store)
    : readers_(std::move(readers)) {
  try {
    array_ = storage_result(
        [uri, make_store = std::move(make_store)] { return std::make_shared<const ArrayPlaces>(uri, make_store); },
        waiting);
  } catch (Error& error) {
    throw error.at_uri(uri);
  }
}

std::int64_t Verifier::places() const noexcept {
  return array_->count();
}

VerifyReport Verifier::verify(std::int64_t first, std::int64_t count,
                              const std::function<void(std::int64_t)>& look) const {
  const auto job = std::make_shared<VerifyJob>(array_, *readers_, first, first + std::min(count, places() - first));
  const OnFailure cancel([&] { job->cancel(); });
  const std::future<void> ended = job->start();
  while (ended.wait_for(kLook) != std::future_status::ready) {
    readers_->threads().abandon_overdue();
    if (look) look(job->done());
  }
  return job->report();
}

}  // namespace damacy
