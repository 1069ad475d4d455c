#include "damacy/batch/answers_ahead.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>

#include "damacy/core/error.h"
#include "damacy/core/on_failure.h"
#include "damacy/store/answer_block.h"
#include "damacy/store/storage_watch.h"

namespace damacy {
namespace {

// Requests that wait hold memory that no plan counts.
constexpr std::size_t kReadsAtMost = 2048;

// Calls what waits for a read when that has landed, or at once. Outlives the read, which may end meanwhile.
class Landing {
 public:
  // On the network thread. A call may own the read, which ends that thread's transfer: so it is destroyed by remove().
  void land() {
    const Lock lock(mutex_);
    has_landed_ = true;
    for (const auto& [who, call] : waiting_) call();
  }
  void add(const void* who, std::function<void()> call) {
    {
      const Lock lock(mutex_);
      if (!has_landed_) return waiting_.emplace_back(who, std::move(call)), void();
    }
    call();
  }
  void remove(const void* who) noexcept {
    Waiting removed;  // ends without the lock
    const Lock lock(mutex_);
    const auto at = std::ranges::find(waiting_, who, &Waiting::first);
    if (at == waiting_.end()) return;
    removed = std::move(*at);
    waiting_.erase(at);
  }

 private:
  using Waiting = std::pair<const void*, std::function<void()>>;
  Mutex mutex_;
  bool has_landed_ DAMACY_GUARDED_BY(mutex_) = false;
  std::vector<Waiting> waiting_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace

bool came_with_its_object(const ArrayMetadata& metadata) {
  return metadata.shards.empty() && static_cast<std::uint64_t>(metadata.chunk_bytes()) <= Store::kExpectedBytes;
}

// An object of which one range is read, once. Batches read chunks from it.
class AnswersAhead::Read final : public Object, public std::enable_shared_from_this<Read> {
 public:
  Read(std::shared_ptr<AnswersAhead> memory, std::shared_ptr<Object> object, const ChunkRun& run, const Wants& wants)
      : memory_(std::move(memory)), object_(std::move(object)), offset_(run.offset), size_(run.bytes) {
    for (const std::uint32_t chunk : run.chunks) chunks_.push_back(wants.chunks[chunk].id);
  }
  ~Read() override {
    started_.reset();
    block_ = {};
    if (is_counted_) memory_->end(*this);
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

  // False: there is no room.
  bool begin() {
    is_counted_ = memory_->reserve(memory());
    if (!is_counted_) return false;
    block_ = AnswerBlock(size_);
    all_ = block_.bytes();
    begun_at_ = std::chrono::steady_clock::now();
    started_ = object_->start_read(offset_, all_, [landing = landing_] { landing->land(); });
    return true;
  }
  const std::vector<ChunkKey>& chunks() const noexcept { return chunks_; }
  std::uint64_t memory() const noexcept { return AnswerBlock::capacity_for(size_); }
  bool has(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset >= offset_ && bytes <= size_ && offset - offset_ <= size_ - bytes;
  }
  bool has_failed() const {
    const Lock lock(mutex_);
    return failure_.has_value();
  }

  const Stamp& stamp() const noexcept override { return object_->stamp(); }
  HeldBytes held(std::uint64_t offset, std::uint64_t bytes) override {
    const Lock lock(mutex_);
    if (state_ != State::finished || failure_ || !has(offset, bytes)) return {};
    return {all_.subspan(offset - offset_, bytes), shared_from_this()};
  }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    if (!has(offset, dst.size())) return object_->read_exact(offset, dst);
    finish();
    Lock lock(mutex_);
    // Where the range is too long for the object, a chunk in it may not be.
    const bool is_too_long = failure_ && failure_->where().reason == "short-read" && dst.size() < size_;
    if (failure_ && !is_too_long) throw *failure_;
    lock.unlock();
    if (is_too_long) return object_->read_exact(offset, dst);
    std::ranges::copy(all_.subspan(offset - offset_, dst.size()), dst.begin());
  }
  bool can_start_reads() const noexcept override { return true; }
  std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                          std::function<void()> landed) override {
    return std::make_unique<Joined>(shared_from_this(), offset, dst, std::move(landed));
  }

 private:
  class Joined final : public StartedRead {
   public:
    Joined(std::shared_ptr<Read> read, std::uint64_t offset, std::span<std::byte> dst, std::function<void()> landed)
        : read_(std::move(read)), offset_(offset), dst_(dst) {
      read_->landing_->add(this, std::move(landed));
    }
    ~Joined() override { read_->landing_->remove(this); }
    Joined(const Joined&) = delete;
    Joined& operator=(const Joined&) = delete;
    void finish() override {
      read_->landing_->remove(this);
      read_->read_exact(offset_, dst_);
    }

   private:
    const std::shared_ptr<Read> read_;
    const std::uint64_t offset_;
    const std::span<std::byte> dst_;
  };
  enum class State { begun, finishing, finished };

  // On the first thread that comes; the others wait. If that one's work is abandoned meanwhile, the next one reads.
  void finish() {
    {
      Lock lock(mutex_);
      while (state_ == State::finishing) StorageWatch::wait_behind([&] { changed_.wait(lock); });
      if (state_ == State::finished) return;
      state_ = State::finishing;
    }
    const OnFailure undo([this] { settle(State::begun, std::nullopt); });
    std::optional<Error> failure;
    const auto started = std::move(started_);
    const bool is_old = std::chrono::steady_clock::now() - begun_at_ > memory_->failure_is_new_;
    if (started) failure = failure_of([&] { started->finish(); });
    if (!started || (failure && is_old)) failure = failure_of([&] { object_->read_exact(offset_, all_); });
    settle(State::finished, std::move(failure));
  }
  void settle(State state, std::optional<Error> failure) {
    const Lock lock(mutex_);
    state_ = state;
    failure_ = std::move(failure);
    changed_.notify_all();
  }

  const std::shared_ptr<AnswersAhead> memory_;
  const std::shared_ptr<Object> object_;
  const std::uint64_t offset_, size_;
  std::vector<ChunkKey> chunks_;
  const std::shared_ptr<Landing> landing_ = std::make_shared<Landing>();
  bool is_counted_ = false;
  AnswerBlock block_;
  std::span<std::byte> all_;  // its bytes
  std::chrono::steady_clock::time_point begun_at_;
  std::unique_ptr<StartedRead> started_;  // of the thread that finishes it
  mutable Mutex mutex_;
  Condition changed_;
  State state_ DAMACY_GUARDED_BY(mutex_) = State::begun;
  std::optional<Error> failure_ DAMACY_GUARDED_BY(mutex_);
};

bool AnswersAhead::add(const RemoteObject& object) noexcept {
  const Lock lock(mutex_);
  if (const auto known = batches_.find(object); known != batches_.end()) {
    ++known->second;
    return true;
  }
  decltype(batches_) added;
  if (object.memory() > most_ - bytes_ || failure_of([&] { added.emplace(object, 1); })) return false;
  batches_.merge(added);
  bytes_ += object.memory();
  return true;
}

void AnswersAhead::remove(const RemoteObject& object) noexcept {
  const Lock lock(mutex_);
  const auto at = batches_.find(object);
  if (--at->second > 0) return;
  bytes_ -= at->first.memory();
  batches_.erase(at);
}

std::uint64_t AnswersAhead::bytes() const noexcept {
  const Lock lock(mutex_);
  return bytes_;
}

// To begin reads. Who waits for it waits behind what the store is asked.
class AnswersAhead::Turn {
 public:
  explicit Turn(AnswersAhead& of) : of_(of) {
    Lock lock(of_.turn_mutex_);
    while (of_.is_beginning_) StorageWatch::wait_behind([&] { of_.turn_ended_.wait(lock); });
    of_.is_beginning_ = true;
  }
  ~Turn() {
    const Lock lock(of_.turn_mutex_);
    of_.is_beginning_ = false;
    of_.turn_ended_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  AnswersAhead& of_;
};

void AnswersAhead::begin_reads(Wants& wants) {
  if (!reads_chunks_) return;
  const Turn turn(*this);
  static_cast<void>(failure_of([&] {
    wants.ahead.resize(wants.chunks.size());
    const ChunkReads reads = find_reads(wants, [&](std::uint32_t chunk) {
      if (!wants.chunks[chunk].is_versioned || came_with_its_object(wants.metadata_of(chunk))) return true;
      if (decoded_ && decoded_->has(wants.chunks[chunk].id)) return true;
      wants.ahead[chunk] = find(wants.chunks[chunk]);
      return wants.ahead[chunk].object != nullptr;
    });
    for (const ChunkRun& run : reads.runs) begin(run, wants);
  }));
}

void AnswersAhead::forget(const ChunkKey& chunk) noexcept {
  const Lock lock(mutex_);
  chunks_.erase(chunk);
}

WholeObject AnswersAhead::find(const Want& want) const {
  std::shared_ptr<Read> read;  // ends without the lock
  std::uint64_t begin = 0;
  {
    const Lock lock(mutex_);
    const auto at = chunks_.find(want.id);
    if (at == chunks_.end()) return {};
    read = at->second.read.lock();
    begin = at->second.begin;
  }
  if (!read || read->has_failed() || !read->has(begin + want.place.offset, want.place.bytes)) return {};
  const void* const id = read.get();
  return {std::move(read), begin, id};
}

void AnswersAhead::begin(const ChunkRun& run, Wants& wants) {
  const std::uint32_t first = run.chunks.front();
  const std::shared_ptr<Object>& object = run.whole ? run.whole : wants.object_with(first);
  if (!object->can_start_reads()) return;
  const auto read = std::make_shared<Read>(shared_from_this(), object, run, wants);
  if (!read->begin()) return;
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < run.chunks.size(); ++i) {
    const std::uint32_t chunk = run.chunks[i];
    const std::uint64_t begin = run.offset + run.begins[i] - wants.where(chunk).offset;
    chunks_.insert_or_assign(wants.chunks[chunk].id, ReadChunk{read, begin});
    wants.ahead[chunk] = {read, begin, read.get()};
  }
}

// Chunks of batches whose objects are not open cannot be read ahead: a quarter stays for objects.
bool AnswersAhead::reserve(std::uint64_t bytes) noexcept {
  const Lock lock(mutex_);
  if (reads_ >= kReadsAtMost || bytes_ + bytes > most_ - most_ / 4) return false;
  ++reads_;
  bytes_ += bytes;
  return true;
}

// Another read of a chunk may have taken its place.
void AnswersAhead::end(const Read& read) noexcept {
  const Lock lock(mutex_);
  --reads_;
  bytes_ -= read.memory();
  for (const ChunkKey& chunk : read.chunks())
    if (const auto at = chunks_.find(chunk); at != chunks_.end() && at->second.read.expired()) chunks_.erase(at);
}

}  // namespace damacy
