#include "damacy/batch/chunk_tasks.h"

#include "damacy/core/limits.h"
#include "damacy/core/mixed.h"
#include "damacy/fetch/readers.h"
#include "damacy/store/noticed_change.h"
#include "damacy/zarr/shard.h"

namespace damacy {
namespace {

std::vector<std::int64_t> as_vector(const Dims& dims) {
  return {dims.begin(), dims.end()};
}

constexpr std::int64_t kLeastDecodedAhead = 64 << 10;  // to decode less takes hardly longer than to keep it

// Calls visit(array, chunk, place) for the chunks of a plan. Two versions of an array have the same places.
template <class Visit>
void for_places(const BatchPlan& plan, Visit visit) {
  for (const PlannedShard& shard : plan.shards) {
    const Array& array = *plan.arrays[shard.array];
    for (std::size_t c = shard.first_chunk; c < shard.first_chunk + shard.chunk_count; ++c)
      visit(array, c, mixed(array.place_hash() + mixed(static_cast<std::uint64_t>(plan.chunks[c].number))));
  }
}

bool is_decoded_ahead(const Array& array) {
  return array.is_remote() && !array.metadata().codecs.is_raw() && array.metadata().chunk_bytes() >= kLeastDecodedAhead;
}

class Checking final : public BlockingCalls {
 public:
  explicit Checking(std::shared_ptr<ChunkTasks> tasks) : tasks_(std::move(tasks)) {}
  void call(std::size_t) override { tasks_->check_unchanged(); }
  void time_out(std::size_t, const Error& why) noexcept override { tasks_->abandon(why); }

 private:
  const std::shared_ptr<ChunkTasks> tasks_;
};

}  // namespace

Wants wants_of(const BatchPlan& plan) {
  Wants wants;
  wants.objects.resize(plan.shards.size());
  for (const Array* const array : plan.arrays) wants.arrays.push_back(&array->metadata());
  wants.chunks.reserve(plan.chunks.size());
  for (std::uint32_t s = 0; s < plan.shards.size(); ++s)
    for (std::uint32_t c = 0; c < plan.shards[s].chunk_count; ++c)
      wants.chunks.push_back({{}, plan.shards[s].array, s});
  return wants;
}

void set_object(Wants& wants, const BatchPlan& plan, std::size_t shard, std::shared_ptr<Object> object) {
  const PlannedShard& planned = plan.shards[shard];
  const Array& array = *plan.arrays[planned.array];
  WideHash version;
  version.add(array.id());
  version.add(words_of(object->stamp()));
  const bool is_versioned = has_version(*array.store(), *object);
  for (std::size_t c = planned.first_chunk; c < planned.first_chunk + planned.chunk_count; ++c) {
    wants.chunks[c].id = key_of_chunk(version, plan.chunks[c].number);
    wants.chunks[c].is_versioned = is_versioned;
  }
  wants.objects[shard] = std::move(object);
}

std::vector<ByteRange> needed_bytes(const BatchPlan& plan, std::span<const PlannedPart> parts, std::size_t chunk,
                                    Verify verify) {
  const PlannedChunk& planned = plan.chunks[chunk];
  const Array& array = *parts[plan.uses[planned.first_use]].array;
  if (verify == Verify::whole && !array.metadata().codecs.is_raw())
    return {{0, static_cast<std::uint64_t>(array.metadata().chunk_bytes())}};
  std::vector<ByteRange> ranges;
  ranges.reserve(planned.use_count);
  for (const std::uint32_t part : std::span(plan.uses).subspan(planned.first_use, planned.use_count))
    ranges.push_back(bytes_needed(parts[part], {array, planned.number}));
  if (ranges.size() > 1) merge_ranges(ranges);
  return ranges;
}

std::vector<DecodedAhead::Place> places_decoded(const BatchPlan& plan) {
  std::vector<DecodedAhead::Place> places;
  for_places(plan, [&](const Array& array, std::size_t, std::uint64_t place) {
    if (is_decoded_ahead(array)) places.push_back(place);
  });
  return places;
}

ChunkTasks::ChunkTasks(const std::shared_ptr<BatchJob>& job, BatchPlan plan, With with,
                       std::shared_ptr<Announcement> announcement)
    : job_(job),
      task_(job),
      plan_(std::move(plan)),
      with_(std::move(with)),
      announcement_(std::move(announcement)),
      shards_(plan_.shards.size()),
      shard_failed_(plan_.shards.size(), 0) {
  wants_ = wants_of(plan_);
}

void ChunkTasks::expect_shards() {
  static_cast<void>(failure_of([&] {
    const std::vector<RemoteObject> objects = remote_objects(plan_);
    while (announcement_ && announcement_->has_more()) announcement_->ask_next();
    const std::size_t announced = announcement_ ? announcement_->objects().size() : 0;
    const auto first = objects.begin() + static_cast<std::ptrdiff_t>(std::min(announced, objects.size()));
    expected_.set({first, objects.end()});
    expect(objects, announced);
  }));
}

void ChunkTasks::take_failures(const std::stop_token& stop) {
  if (announcement_) failures_ = announcement_->take_failures(stop);
}

void ChunkTasks::open_shard(std::size_t shard) {
  if (plan_.shards[shard].is_constant) return;
  const Array& array = array_of(shard);
  if (const auto failed = failures_.find(shard); failed != failures_.end()) return fail_opening(shard, failed->second);
  const auto failure = failure_of([&] {
    std::shared_ptr<const Shard> opened = with_.catalog->shard(array, plan_.shards[shard].shard);
    if (!opened) with_.catalog->check_missing_chunk(array, array.key_of_shard(plan_.shards[shard].shard));
    shards_[shard] = std::move(opened);
  });
  if (failure) fail_opening(shard, *failure);
}

void ChunkTasks::fail_opening(std::size_t shard, const Error& why) noexcept {
  shard_failed_[shard] = 1;
  fail_shard(shard, why);
}

void ChunkTasks::find_chunks() {
  shards_done_ = true;
  for (std::size_t s = 0; s < shards_.size(); ++s)
    if (shards_[s]) set_object(wants_, plan_, s, shards_[s]->object);
  for (std::size_t c = 0; c < plan_.chunks.size(); ++c) {
    ChunkPlace& place = wants_.chunks[c].place;
    if (const auto failure = failure_of([&] { place = locate(shard_of(c), plan_.chunks[c]); })) {
      place.failed = true;
      fail_chunk(c, *failure);
    }
  }
  choose_parts(wants_, [this](std::size_t chunk) { return needed_bytes(chunk); });
}

void ChunkTasks::take_reads() {
  announcement_->take_reads(wants_);
}

void ChunkTasks::count_wanted(bool parts) const {
  with_.board.add_chunks([&](ChunkReuse& reuse) {
    for_places(plan_, [&](const Array& array, std::size_t c, std::uint64_t place) {
      if (!where(c).missing && !where(c).failed && (parts || !wants_.chunks[c].in_part))
        reuse.add(place, where(c).bytes, static_cast<std::uint64_t>(array.metadata().chunk_bytes()));
    });
  });
}

bool ChunkTasks::name_decoded(DecodedAhead& ahead) const noexcept {
  std::vector<DecodedAhead::Named> named;
  const auto failure = failure_of([&] {
    for_places(plan_, [&](const Array& array, std::size_t c, std::uint64_t place) {
      const Want& want = wants_.chunks[c];
      if (is_decoded_ahead(array) && !want.in_part && !want.place.missing && !want.place.failed)
        named.push_back({place, want.id});
    });
    if (!named.empty()) ahead.name(named);
  });
  return !failure && !named.empty();
}

void ChunkTasks::end_decoded() noexcept {
  if (announcement_) announcement_->end_decoded();
}

ChunkPlace ChunkTasks::locate(std::size_t shard, const PlannedChunk& chunk) const {
  if (shard_failed_[shard]) return {.failed = true};
  return place_of_chunk(array_of(shard), shards_[shard].get(), chunk.index_in_shard);
}

std::int64_t ChunkTasks::count_uses(std::size_t chunk) const noexcept {
  const ChunkInArray of = in_array(chunk);
  std::int64_t uses = 0;
  for (const std::uint32_t number : parts_of(chunk)) uses += count_copies(part(number), of);
  return uses;
}

void ChunkTasks::visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const {
  const ChunkInArray of = in_array(chunk);
  for (const std::uint32_t number : parts_of(chunk))
    for_copies(part(number), of, {job_->box_of(number), job_->dtype_of(number), from == From::fill},
               [&](const BlockCopy& copy) { visit({number, copy}); });
}

std::span<const std::byte> ChunkTasks::fill_of(std::size_t chunk) const {
  const ArrayMetadata& metadata = metadata_of(chunk);
  return std::span(metadata.fill).first(size_of(metadata.dtype));
}

void ChunkTasks::count_decode(StatsBoard::Span time, std::uint64_t encoded, std::uint64_t decoded) noexcept {
  decode_ns_ += time.count();
  encoded_bytes_ += static_cast<std::int64_t>(encoded);
  decoded_bytes_ += static_cast<std::int64_t>(decoded);
}

void ChunkTasks::count_placed(StatsBoard::Span time, std::size_t chunk, std::int64_t elements, Decode how) noexcept {
  const Array& array = array_of(shard_of(chunk));
  place_ns_ += time.count();
  used_bytes_ += elements * static_cast<std::int64_t>(size_of(array.metadata().dtype));
  placed_bytes_ += bytes_placed(chunk, elements);
  const bool decoded = how == Decode::on_device || how == Decode::on_host;
  if (decoded) ++decoded_;
  if (how == Decode::on_host) ++decoded_on_host_;
  deduplicated_ += plan_.chunks[chunk].use_count - (how == Decode::joined ? 0 : 1);
}

std::int64_t ChunkTasks::bytes_placed(std::size_t chunk, std::int64_t elements) const noexcept {
  const auto bytes_of_element = [&](std::uint32_t part) {
    return static_cast<std::int64_t>(size_of(job_->dtype_of(part)));
  };
  const std::span<const std::uint32_t> parts = parts_of(chunk);
  if (job_->layout().arrays().size() == 1) return elements * bytes_of_element(parts.front());
  std::int64_t bytes = 0;
  const ChunkInArray of = in_array(chunk);
  for (const std::uint32_t number : parts) bytes += count_elements(part(number), of) * bytes_of_element(number);
  return bytes;
}

void ChunkTasks::fail_chunk(std::size_t chunk, const Error& error) noexcept {
  const ChunkPlace& stored = where(chunk);
  if (error.status() == Status::decode && stored.bytes > 0 && object_with(chunk)) {
    object_with(chunk)->forget_piece({stored.offset, stored.bytes});  // also those that a device has decoded
    if (announcement_) announcement_->forget(wants_.chunks[chunk].id);
  }
  fail_parts(chunk, extended(error, [&](Error& full) {
               const std::size_t shard = shard_of(chunk);
               const Array& array = array_of(shard);
               full.at_uri(array.uri()).at_store(array.store()->name());
               if (plan_.chunks[chunk].is_constant()) return;
               full.at_key(array.key_of_shard(plan_.shards[shard].shard)).in_shard(!array.metadata().shards.empty());
               full.at_chunk(as_vector(chunk_coordinates(array, plan_.chunks[chunk].number)));
               if (stored.bytes > 0) full.at_bytes(stored.offset, stored.offset + stored.bytes);
             }));
}

void ChunkTasks::fail_shard(std::size_t shard, const Error& error) noexcept {
  const PlannedShard& planned = plan_.shards[shard];
  for (std::size_t c = planned.first_chunk; c < planned.first_chunk + planned.chunk_count; ++c)
    fail_parts(c, extended(error, [&](Error& of_chunk) {
                 const Array& array = array_of(shard);
                 of_chunk.at_uri(array.uri()).at_store(array.store()->name());
                 if (planned.is_constant) return;
                 const std::string key = array.key_of_shard(planned.shard);
                 of_chunk.at_key(key);
                 if (of_chunk.where().key == key)
                   of_chunk.in_shard(!array.metadata().shards.empty())
                       .at_chunk(as_vector(chunk_coordinates(array, plan_.chunks[c].number)));
               }));
}

void ChunkTasks::fail_parts(std::size_t chunk, const Error& error) noexcept {
  for (const std::uint32_t part : parts_of(chunk)) job_->fail(part, error);
}

// A plan that was cancelled by a close has read nothing, and one of its shards may still be opening.
void ChunkTasks::planned() {
  if (!shards_done_) return;
  wants_.ahead.clear();
  if (end_read()) check_last_read();
}

void ChunkTasks::read_begins() noexcept {
  ++open_reads_;
  job_->read_begins();
}

void ChunkTasks::read_ended() {
  job_->read_ended();
  if (end_read()) check_last_read();
}

void ChunkTasks::read_ended_elsewhere() noexcept {
  job_->read_ended();
  if (end_read()) check_elsewhere();
}

bool ChunkTasks::end_read() noexcept {
  return open_reads_.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

// What was read must still be what is there, or rows could mix two versions of an object.
void ChunkTasks::check_last_read() {
  if (StorageWatch::current() != nullptr)
    check_unchanged();
  else
    check_elsewhere();
}

// A thread without a watch must not call storage.
void ChunkTasks::check_elsewhere() noexcept {
  try {
    const auto task = std::make_shared<Task<ChunkTasks>>(shared_from_this());
    with_.readers.run_blocking(std::make_shared<Checking>(task->job()), 1, 1, [task] { task->end(); });
  } catch (const std::bad_alloc&) {  // nothing was asked
    fail_all(current_error());
  }
}

void ChunkTasks::check_unchanged() {
  const StorageWatch::Scope scope(this);
  if (const auto failure = failure_of([&] { compare_stamps(); })) fail_all(*failure);
}

void ChunkTasks::compare_stamps() {
  std::vector<std::optional<Error>> errors(plan_.arrays.size());
  for (std::size_t a = 0; a < plan_.arrays.size(); ++a)
    errors[a] = failure_of([&] { with_.catalog->check_unchanged(*plan_.arrays[a]); });
  for (std::size_t s = 0; s < plan_.shards.size(); ++s) {
    if (shard_failed_[s]) continue;
    const auto failure = failure_of([&] {
      if (errors[plan_.shards[s].array]) throw *errors[plan_.shards[s].array];
      const auto shard = shards_[s];  // a thread that was abandoned still reads it
      if (shard) with_.catalog->check_unchanged(array_of(s), *shard);
    });
    if (failure) fail_shard(s, *failure);
  }
}

void ChunkTasks::fail_all(const Error& error) noexcept {
  for (std::size_t s = 0; s < plan_.shards.size(); ++s) fail_shard(s, error);
}

void ChunkTasks::settle() noexcept {
  shards_.clear();
  wants_.objects.clear();
  expected_.end();
  announcement_.reset();
  const auto record = [&](Metric Stats::* metric, std::int64_t ns, std::int64_t in, std::int64_t out) {
    if (out > 0)
      board().record(metric, std::chrono::nanoseconds(ns), static_cast<double>(in), static_cast<double>(out));
  };
  board().add(&Stats::chunks_decoded, decoded_);
  board().add(&Stats::chunks_decoded_on_host, decoded_on_host_);
  board().add(&Stats::chunks_deduplicated, deduplicated_);
  record(&Stats::decompress, decode_ns_, encoded_bytes_, decoded_bytes_);
  record(&Stats::assemble, place_ns_, used_bytes_, placed_bytes_);
  task_.end();
}

}  // namespace damacy
