#include "damacy/single/selection_read.h"

#include <atomic>
#include <unordered_map>

#include "damacy/fetch/host_sink.h"
#include "damacy/single/object_chunks.h"

namespace damacy {

namespace {

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
        [&] { job.request.device->add(std::move(chunks_), job.readers.threads(), job.memory_of_readers()); });
    if (failure) job.fail(*failure);
  }

 private:
  std::vector<std::shared_ptr<WantedChunks>> chunks_;
  std::atomic<std::size_t> left_;
};

// Opens one object and locates its chunks.
class ObjectRead : public Request {
 public:
  ObjectRead(const std::shared_ptr<SelectionJob>& job, std::span<const std::uint32_t> items)
      : job_(job), task_(job), chunks_(std::make_shared<ObjectChunks>(job, items)) {}
  bool can_be_abandoned() const noexcept override { return true; }

 protected:
  std::shared_ptr<SelectionJob> job_;
  Task<SelectionJob> task_;  // ends after all below
  std::shared_ptr<ObjectChunks> chunks_;
};

// What the object holds is either read right here (its first run) or given to other threads (the rest).
class HostObjectRead final : public ObjectRead {
 public:
  using ObjectRead::ObjectRead;

  Part prepare(std::size_t thread, std::stop_token stop) override {
    chunks_->open();
    const auto sink = std::make_shared<HostSink>(chunks_, job_->memory_of_readers());
    const ChunkReads reads = find_reads(*chunks_);
    for (const std::uint32_t chunk : reads.missing) sink->fill(chunk);
    for (const ChunkRun& run : reads.runs) add(std::make_unique<ChunkRunRead>(sink, run));
    for (const std::uint32_t chunk : reads.partial) add(std::make_unique<PartialRead>(sink, chunk));
    return first_ ? first_->prepare(thread, std::move(stop)) : Part{};
  }
  void complete(std::size_t thread, const Part& part, const Error* failure) override {
    if (first_)
      first_->complete(thread, part, failure);
    else if (failure != nullptr)
      chunks_->fail_all(*failure);
  }
  void abandon(const Error& why) noexcept override {
    if (first_)
      first_->abandon(why);
    else
      chunks_->fail_all(why);
    task_.end();
  }

 private:
  void add(std::unique_ptr<Request> request) {
    if (first_)
      job_->readers.threads().submit_urgent(std::move(request));
    else
      first_ = std::move(request);
  }

  std::unique_ptr<Request> first_;
};

class DeviceObjectRead final : public ObjectRead {
 public:
  DeviceObjectRead(const std::shared_ptr<SelectionJob>& job, std::span<const std::uint32_t> items,
                   std::shared_ptr<Located> located, std::size_t number)
      : ObjectRead(job, items), located_(std::move(located)), number_(number) {}

  Part prepare(std::size_t, std::stop_token) override {
    chunks_->open();
    return {};
  }
  void complete(std::size_t, const Part&, const Error* failure) override {
    if (failure != nullptr) chunks_->fail_all(*failure);
    located_->add(*job_, number_, failure == nullptr ? chunks_ : nullptr);
  }
  void abandon(const Error& why) noexcept override {
    chunks_->fail_all(why);
    located_->add(*job_, number_, nullptr);
    task_.end();
  }

 private:
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

void submit(const std::shared_ptr<SelectionJob>& job) {
  Readers& threads = job->readers.threads();
  const auto objects = items_by_object(job->request);
  if (!job->request.device) {
    for (const auto& items : objects) threads.submit(std::make_unique<HostObjectRead>(job, items));
    return;
  }
  const auto located = std::make_shared<Located>(objects.size());
  for (std::size_t i = 0; i < objects.size(); ++i)
    threads.submit(std::make_unique<DeviceObjectRead>(job, objects[i], located, i));
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
