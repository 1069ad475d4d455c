#include "damacy/single/selection_read.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "damacy/cache/chunk_key.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/announced_reads.h"
#include "damacy/fetch/cached_task.h"
#include "damacy/plan/selection.h"
#include "damacy/store/noticed_change.h"
#include "damacy/zarr/shard.h"

namespace damacy {
namespace {

// The chunks of one object that a read wants, or of several that are parts of one, for the requests that read them.
// Opens the objects and locates their chunks.
class ObjectWants final : public WantedChunks {
 public:
  explicit ObjectWants(std::shared_ptr<SelectionJob> job)
      : job_(std::move(job)), has_cache_(job_->request.cache != nullptr) {}

  // An object. `items`: of the request, all with one key.
  void add(std::vector<std::uint32_t> items) { objects_.push_back({std::move(items)}); }
  // Reports a failure to the object that failed, and throws it.
  void open();

  std::vector<ByteRange> needed_bytes(std::size_t chunk) const override {
    const Selected& of = object_of(chunk);
    return of.chunks->needed_bytes(chunk - of.first);
  }
  StatsBoard& board() const noexcept override { return job_->readers.board(); }
  Task<Job> new_task() noexcept override { return Task<Job>(job_); }
  void check_wanted() const override { job_->check_wanted(); }
  const std::atomic<bool>* cancelled() const noexcept override { return &job_->cancelled(); }
  Destination& destination() const noexcept override { return *job_; }
  std::int64_t count_uses(std::size_t chunk) const noexcept override {
    const Selected& of = object_of(chunk);
    return of.chunks->copies(chunk - of.first);
  }
  std::span<const std::byte> fill_of(std::size_t) const override {
    return std::span(job_->request.fill).first(size_of(array().metadata().dtype));
  }
  void count_decode(StatsBoard::Span, std::uint64_t encoded, std::uint64_t decoded) noexcept override;
  void count_placed(StatsBoard::Span, std::size_t, std::int64_t, Decode) noexcept override {}
  void fail_chunk(std::size_t chunk, const Error& error) noexcept override;
  void fail_all(const Error& error) noexcept override { fail(objects_.front(), error); }  // the first failure counts

 private:
  struct Selected {
    std::vector<std::uint32_t> items;
    std::optional<SelectedChunks> chunks{};  // once the object was opened
    std::size_t first = 0;                   // of them, in wants_
  };
  const Array& array() const noexcept { return *job_->request.object; }
  const Selected& object_of(std::size_t chunk) const noexcept { return objects_[object_of_[chunk]]; }
  const std::string& key_of(const Selected& of) const { return job_->request.items[of.items.front()].key; }
  void open(Selected& of);
  Shard outermost_shard(const std::string& key, std::shared_ptr<Object> object) const;
  void locate(const Selected& of, std::shared_ptr<Object> object);
  void set_ids(const Selected& of);
  void fail(const Selected& of, const Error& error) noexcept;
  Error& name_chunk(Error& error, std::size_t chunk) const;  // by its coordinates in the array
  void visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const override;

  std::shared_ptr<SelectionJob> job_;
  const bool has_cache_;
  std::int64_t begin_ns_ = 0;  // the system's time before the objects were opened
  std::vector<Selected> objects_;
  std::vector<std::uint32_t> object_of_;  // by chunk
};

void ObjectWants::open() {
  wants_.arrays = {&array().metadata()};
  begin_ns_ = system_ns();
  for (Selected& of : objects_) {
    const auto failure = failure_of([&] { open(of); });
    if (!failure) continue;
    fail(of, *failure);
    throw Error(*failure);
  }
  // The cores decode parts for a device, too. Then no more bytes are uploaded than are stored.
  choose_parts(wants_, [this](std::size_t chunk) { return needed_bytes(chunk); }, job_->request.device != nullptr);
}

void ObjectWants::open(Selected& of) {
  job_->check_wanted();
  std::shared_ptr<Object> object = job_->request.store->open(key_of(of));
  std::vector<std::span<const AxisRuns>> selections;
  for (const std::uint32_t item : of.items) selections.emplace_back(job_->request.items[item].axes);
  of.chunks.emplace(array(), selections);
  of.first = wants_.chunks.size();
  wants_.chunks.resize(of.first + of.chunks->size());
  object_of_.resize(wants_.chunks.size(), static_cast<std::uint32_t>(&of - objects_.data()));
  const auto chunks = std::span(wants_.chunks).subspan(of.first);
  const auto number = static_cast<std::uint32_t>(wants_.objects.size());
  if (object) {
    locate(of, std::move(object));
  } else {
    for (const std::uint32_t item : of.items) job_->missing[item] = 1;
    for (Want& chunk : chunks) chunk = {.place = {.missing = true}, .object = number};
    wants_.objects.emplace_back();
  }
  job_->readers.counters().chunks_missing +=
      std::ranges::count_if(chunks, [](const Want& chunk) { return chunk.place.missing; });
}

// The index is kept from one read to the next; a shard that was decoded as a whole is not.
Shard ObjectWants::outermost_shard(const std::string& key, std::shared_ptr<Object> object) const {
  const auto& levels = array().metadata().shards;
  if (levels.empty()) return {key, std::move(object), std::nullopt};
  if (!levels.front().codecs.codecs().empty()) return read_outermost_shard(array(), key, std::move(object));
  Store& store = *job_->request.store;
  ShardIndex index = job_->request.keeps_indices && has_version(store, *object)
                         ? job_->readers.index_of(array(), *object, formatted("{}\0{}", store.cache_identity(), key))
                         : read_shard_index(array(), *object);
  return {key, std::move(object), std::move(index)};
}

// Chunks of shards that were decoded as a whole lie in objects of their own.
void ObjectWants::locate(const Selected& of, std::shared_ptr<Object> object) {
  if (of.chunks->size() == 0) return;
  NestedShards shards(array(), outermost_shard(key_of(of), std::move(object)));
  for (std::size_t chunk = 0; chunk < of.chunks->size(); ++chunk) {
    Want& want = wants_.chunks[of.first + chunk];
    const Shard& shard = shards.innermost(of.chunks->coordinates(chunk));
    if (chunk == 0 || wants_.objects.back() != shard.object) wants_.objects.push_back(shard.object);
    want.object = static_cast<std::uint32_t>(wants_.objects.size() - 1);
    try {
      want.place = place_of_chunk(array(), &shard, of.chunks->number(chunk) % array().chunks_per_shard());
    } catch (Error& error) {
      throw name_chunk(error, of.first + chunk);
    }
  }
  if (has_cache_) set_ids(of);
}

// Of the object and its version, among those of all stores.
void ObjectWants::set_ids(const Selected& of) {
  const Store& store = *job_->request.store;
  WideHash name;
  name.add(array().id());
  name.add(store.cache_identity());
  name.add(key_of(of));
  for (std::size_t chunk = 0; chunk < of.chunks->size(); ++chunk) {
    Want& want = wants_.chunks[of.first + chunk];
    const Object& object = *wants_.objects[want.object];
    WideHash version = name;
    version.add(words_of(object.stamp()));
    want.id = key_of_chunk(version, static_cast<std::int64_t>(of.chunks->number(chunk)));
    want.is_versioned = has_version(store, object) && (store.is_remote() || is_settled(object.stamp(), begin_ns_));
  }
}

// Elements keep their bits, or are converted.
void ObjectWants::visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const {
  const bool is_stored = from == From::chunk;
  const Dtype bits = type_of_bits(array().metadata().dtype);
  const bool swaps = (is_stored && array().metadata().swap_bytes) != job_->request.swap_out;
  const std::optional<Dtype>& as = job_->request.as;
  const CopyOp op{as ? array().metadata().dtype : bits, as.value_or(bits), swaps && scalar_size_of(bits) > 1};
  const Selected& of = object_of(chunk);
  of.chunks->for_copies(chunk - of.first, is_stored ? array().chunk_strides() : Dims(array().rank(), 0),
                        job_->out_begin(), op, [&](const BlockCopy& copy) { visit({0, copy}); });
}

void ObjectWants::count_decode(StatsBoard::Span, std::uint64_t encoded, std::uint64_t decoded) noexcept {
  ReadCounters& counters = job_->readers.counters();
  ++counters.chunks_decoded;
  counters.stored_bytes += static_cast<std::int64_t>(encoded);
  counters.decoded_bytes += static_cast<std::int64_t>(decoded);
}

void ObjectWants::fail(const Selected& of, const Error& error) noexcept {
  job_->fail(extended(error, [&](Error& located) {
    located.in_shard(!array().metadata().shards.empty()).at_uri(job_->request.object->uri());
    located.at_store(job_->request.store->name()).at_key(key_of(of));
  }));
}

Error& ObjectWants::name_chunk(Error& error, std::size_t chunk) const {
  const Selected& of = object_of(chunk);
  const auto object = array().coordinates_in_key(key_of(of));
  if (!object) return error;
  const Dims inside = of.chunks->coordinates(chunk - of.first);
  std::vector<std::int64_t> coordinates;
  for (std::size_t axis = 0; axis < inside.size(); ++axis)
    coordinates.push_back((*object)[axis] * array().grid()[axis] + inside[axis]);
  return error.at_chunk(std::move(coordinates));
}

void ObjectWants::fail_chunk(std::size_t chunk, const Error& error) noexcept {
  fail(object_of(chunk), extended(error, [&](Error& located) {
         name_chunk(located, chunk);
         const ChunkPlace& place = where(chunk);
         if (place.bytes > 0) located.at_bytes(place.offset, place.offset + place.bytes);
       }));
}

// The objects of a read that goes into a device's memory. When all are located, their chunks go there together.
class Located {
 public:
  explicit Located(std::size_t objects) : chunks_(objects), left_(objects) {}
  // Null: that object failed.
  void add(SelectionJob& job, std::size_t object, std::shared_ptr<WantedChunks> chunks) noexcept {
    chunks_[object] = std::move(chunks);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    std::erase(chunks_, nullptr);
    const auto failure = failure_of(
        [&] { job.request.device->queue(std::move(chunks_), job.readers.threads(), job.memory_of_readers()); });
    if (failure) job.fail(*failure);
  }

 private:
  std::vector<std::shared_ptr<WantedChunks>> chunks_;
  std::atomic<std::size_t> left_;
};

// The objects of a read in a remote store. They are asked for together before the first is opened, and another one
// each time that one is opened.
class Announcement {
 public:
  Announcement(std::shared_ptr<SelectionJob> job, std::vector<RemoteObject> objects)
      : job_(std::move(job)), objects_(std::move(objects)) {}
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  // A read that was cancelled or has failed opens no more.
  ~Announcement() {
    if (!failure_of([this] { job_->check_wanted(); })) return;
    for (const RemoteObject& object : std::span(objects_).first(next_)) object.store->unexpect(object.key);
  }

  void make() {
    const Lock lock(mutex_);
    const std::size_t count = std::min(next_ == 0 ? kExpectedAtOnce : 1, objects_.size() - next_);
    expect(std::span(objects_).subspan(next_, count));
    next_ += count;
  }

 private:
  const std::shared_ptr<SelectionJob> job_;
  const std::vector<RemoteObject> objects_;
  Mutex mutex_;
  std::size_t next_ DAMACY_GUARDED_BY(mutex_) = 0;
};

void open_wanted(Announcement& announcement, ObjectWants& chunks) {
  chunks.while_wanted([&] {
    announcement.make();
    chunks.open();
  });
}

// Opens one object and locates its chunks.
class DeviceObjectRead final : public Request {
 public:
  DeviceObjectRead(const std::shared_ptr<SelectionJob>& job, std::shared_ptr<Announcement> announcement,
                   std::shared_ptr<ObjectWants> chunks, std::shared_ptr<Located> located, std::size_t number)
      : task_(job),
        announcement_(std::move(announcement)),
        chunks_(std::move(chunks)),
        located_(std::move(located)),
        number_(number) {}

  Part prepare(std::size_t, std::stop_token) override {
    open_wanted(*announcement_, *chunks_);
    return {};
  }
  void complete(std::size_t, const Part&, const Error* failure) override {
    if (failure != nullptr) chunks_->fail_all(*failure);
    located_->add(*task_, number_, failure == nullptr ? chunks_ : nullptr);
  }
  bool can_be_abandoned() const noexcept override { return true; }
  void abandon(const Error& why) noexcept override {
    chunks_->fail_all(why);
    located_->add(*task_, number_, nullptr);
    task_.end();
  }

 private:
  Task<SelectionJob> task_;  // ends after all below
  std::shared_ptr<Announcement> announcement_;
  std::shared_ptr<ObjectWants> chunks_;
  std::shared_ptr<Located> located_;
  std::size_t number_;
};

// The request's items by object, in the order of the objects' first items.
std::vector<std::vector<std::uint32_t>> items_by_object(const SelectionRequest& request) {
  std::unordered_map<std::string_view, std::size_t> position;
  std::vector<std::vector<std::uint32_t>> objects;
  for (std::uint32_t i = 0; i < request.items.size(); ++i) {
    const auto [at, is_new] = position.try_emplace(request.items[i].key, objects.size());
    if (is_new) objects.emplace_back();
    objects[at->second].push_back(i);
  }
  return objects;
}

// The chunks of each object, or of all objects that are parts of one.
std::vector<std::shared_ptr<ObjectWants>> chunks_to_read(const std::shared_ptr<SelectionJob>& job) {
  const SelectionRequest& request = job->request;
  std::unordered_map<const void*, std::size_t> position;
  std::vector<std::shared_ptr<ObjectWants>> all;
  for (std::vector<std::uint32_t>& items : items_by_object(request)) {
    const void* const whole = request.store->whole_id(request.items[items.front()].key);
    const std::size_t last = all.size();
    const std::size_t number = whole != nullptr ? position.try_emplace(whole, last).first->second : last;
    if (number == last) all.push_back(std::make_shared<ObjectWants>(job));
    all[number]->add(std::move(items));
  }
  return all;
}

// Of a chunk without a shard the store's usual first bytes are asked for: a disk may have the chunk.
std::vector<RemoteObject> objects_to_announce(const SelectionRequest& request) {
  std::vector<RemoteObject> objects;
  if (!request.store->is_remote() || !request.store->can_expect()) return objects;
  for (const std::vector<std::uint32_t>& items : items_by_object(request))
    objects.push_back(remote_object(*request.object, request.store, request.items[items.front()].key));
  if (request.object->metadata().shards.empty())
    for (RemoteObject& object : objects) object.bytes = object.reads = 0;
  return objects;
}

// Places what the cache has, of which `readers` do all but the last few, and returns the reads of what it has not.
ChunkReads place_kept(const std::shared_ptr<HostSink>& sink, SelectionReaders& readers) {
  std::unique_ptr<CachedTask> task;
  ChunkReads reads = find_reads(sink->chunks().wants(), [&](std::uint32_t chunk) {
    auto hold = sink->decoded().find(chunk);
    if (sink->decoded().is_asked_for(chunk)) ++(hold ? readers.counters().cache_hits : readers.counters().cache_misses);
    if (!hold) return false;
    if (!task) task = std::make_unique<CachedTask>(sink);
    task->add({chunk, std::move(*hold)});
    if (task->is_full(/*before_neighbour=*/false)) readers.threads().submit_urgent(std::move(task));
    return true;
  });
  if (task) task->complete(0, {}, nullptr);
  return reads;
}

OpeningRead::Opened opened(const std::shared_ptr<SelectionJob>& job, Announcement& announcement,
                           const std::shared_ptr<ObjectWants>& chunks) {
  const std::shared_ptr<ChunkTier> cache = job->request.cache;
  open_wanted(announcement, *chunks);
  auto sink = std::make_shared<HostSink>(chunks, job->memory_of_readers(), HostTiers{cache.get(), nullptr, cache});
  ChunkReads reads = place_kept(sink, job->readers);
  for (const std::uint32_t chunk : reads.missing) sink->fill(chunk);
  return {std::move(sink), std::move(reads)};
}

void submit(const std::shared_ptr<SelectionJob>& job) {
  const auto objects = chunks_to_read(job);
  const auto located = job->request.device ? std::make_shared<Located>(objects.size()) : nullptr;
  const auto announcement = std::make_shared<Announcement>(job, objects_to_announce(job->request));
  for (std::size_t i = 0; i < objects.size(); ++i) {
    auto chunks = objects[i];
    if (located)
      job->readers.threads().submit(
          std::make_unique<DeviceObjectRead>(job, announcement, std::move(chunks), located, i));
    else
      job->readers.threads().submit(std::make_unique<OpeningRead>(
          job->readers.threads(), chunks, [job, announcement, chunks] { return opened(job, *announcement, chunks); }));
  }
}

}  // namespace

SelectionRead::SelectionRead(SelectionReaders& readers, SelectionRequest request, std::function<void()> ended)
    : job_(std::make_shared<SelectionJob>(readers, std::move(request), std::move(ended))) {}

void SelectionRead::start() {
  const Task task(job_);
  ++job_->readers.counters().reads;
  job_->readers.counters().items += static_cast<std::int64_t>(job_->request.items.size());
  // What was submitted runs all the same: it ends with the read, and not before.
  if (const auto failure = failure_of([&] { submit(job_); })) job_->fail(*failure);
}

}  // namespace damacy
