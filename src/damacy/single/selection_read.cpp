#include "damacy/single/selection_read.h"

#include <charconv>
#include <unordered_map>

#include "damacy/single/object_chunks.h"

namespace damacy {

// One object: opened, and what it holds either read right here (its first run) or given to other threads (the rest).
class ObjectRead final : public Request {
 public:
  ObjectRead(std::shared_ptr<SelectionRead> read, std::span<const std::uint32_t> items)
      : read_(std::move(read)), chunks_(std::make_shared<ObjectChunks>(read_, items)) {
    read_->open_task();
  }
  ~ObjectRead() override {
    first_.reset();
    chunks_.reset();
    if (!abandoned_) read_->close_task();
  }

  Part prepare(std::size_t thread, std::stop_token stop) override {
    const ChunkReads reads = chunks_->open(stop);
    for (const ChunkRun& run : reads.runs) add(std::make_unique<ChunkRunRead>(chunks_, run));
    for (const std::uint32_t chunk : reads.partial) add(std::make_unique<PartialRead>(chunks_, chunk));
    return first_ ? first_->prepare(thread, std::move(stop)) : Part{};
  }

  void complete(std::size_t thread, const Part& part, const Error* failure) noexcept override {
    if (first_)
      first_->complete(thread, part, failure);
    else if (failure != nullptr)
      chunks_->fail_object(*failure);
  }
  bool can_be_abandoned() const noexcept override { return true; }
  void abandon(const Error& why) noexcept override {
    abandoned_ = true;
    if (first_)
      first_->abandon(why);
    else
      chunks_->fail_object(why);
    read_->close_task();
  }

 private:
  void add(std::unique_ptr<Request> request) {
    if (first_)
      read_->workers_.submit_urgent(std::move(request));
    else
      first_ = std::move(request);
  }

  std::shared_ptr<SelectionRead> read_;
  std::shared_ptr<ObjectChunks> chunks_;
  std::unique_ptr<Request> first_;
  bool abandoned_ = false;
};

SelectionRead::SelectionRead(ReadWorkers& workers, SelectionRequest request, std::function<void()> ended)
    : workers_(workers),
      request_(std::move(request)),
      memory_(workers_.memory_for(*request_.object)),
      ended_(std::move(ended)),
      missing_(request_.items.size(), 0) {
  request_.store = make_watched_store(std::move(request_.store));
}

void SelectionRead::start() {
  open_task();
  if (!request_.device) return submit();
  waves_ = std::make_unique<ReadWaves>(request_.device, request_.after, [this](const Error& error) { fail(error); });
  request_.device->take_turn([self = shared_from_this()] { self->submit(); });
}

void SelectionRead::submit() {
  ++workers_.counters().reads;
  workers_.counters().items += static_cast<std::int64_t>(request_.items.size());
  std::unordered_map<std::string_view, std::size_t> position;
  std::vector<std::vector<std::uint32_t>> objects;
  for (std::uint32_t i = 0; i < request_.items.size(); ++i) {
    const auto [at, is_new] = position.try_emplace(request_.items[i].key, objects.size());
    if (is_new) objects.emplace_back();
    objects[at->second].push_back(i);
  }
  try {
    for (const auto& items : objects) workers_.submit(std::make_unique<ObjectRead>(shared_from_this(), items));
  } catch (...) {  // what was submitted runs: it ends with the read, and not before
    fail(current_error());
  }
  close_task();
}

void SelectionRead::close_task() noexcept {
  if (open_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (waves_) {
    waves_->finish();
    waves_.reset();
    request_.device->end_turn();
  }
  if (!memory_stays_) memory_.reset();
  const auto ended = std::move(ended_);
  ended();
}

void SelectionRead::check_wanted() const {
  if (cancelled_) throw Error(Status::shutdown, "the read was cancelled", "cancelled");
  if (failed_) throw Error(Status::shutdown, "another part of the read failed", "failed");
}

// The first failure counts; parts that stop because of it come later.
void SelectionRead::fail(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  failed_ = true;
}

std::optional<Dims> coordinates_in_key(const ArrayMetadata& metadata, std::string_view key) {
  Dims found(metadata.chunk_shape.size(), 0);
  for (std::size_t axis = found.size(); axis-- > 0;) {
    const std::size_t begin = key.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
    const auto digits = key.substr(begin);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), found[axis]).ec != std::errc())
      return std::nullopt;
    key.remove_suffix(digits.size());
    if (axis == 0) break;
    if (!key.ends_with(metadata.keys.separator)) return std::nullopt;
    key.remove_suffix(1);
  }
  return found;
}

}  // namespace damacy
