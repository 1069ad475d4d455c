#include "damacy/single/selection_read.h"

#include <unordered_map>

#include "damacy/single/object_chunks.h"

namespace damacy {

namespace {

// One object: opened, and what it holds either read right here (its first run) or given to other threads (the rest).
class ObjectRead final : public Request {
 public:
  ObjectRead(const std::shared_ptr<SelectionJob>& job, std::span<const std::uint32_t> items)
      : job_(job), task_(job), chunks_(std::make_shared<ObjectChunks>(job, items)) {}

  Part prepare(std::size_t thread, std::stop_token stop) override {
    const ChunkReads reads = chunks_->open(stop);
    for (const ChunkRun& run : reads.runs) add(std::make_unique<ChunkRunRead>(chunks_, run));
    for (const std::uint32_t chunk : reads.partial) add(std::make_unique<PartialRead>(chunks_, chunk));
    return first_ ? first_->prepare(thread, std::move(stop)) : Part{};
  }

  void complete(std::size_t thread, const Part& part, const Error* failure) override {
    if (first_)
      first_->complete(thread, part, failure);
    else if (failure != nullptr)
      chunks_->fail_object(*failure);
  }
  bool can_be_abandoned() const noexcept override { return true; }
  void abandon(const Error& why) noexcept override {
    if (first_)
      first_->abandon(why);
    else
      chunks_->fail_object(why);
    task_.end();
  }

 private:
  void add(std::unique_ptr<Request> request) {
    if (first_)
      job_->workers.submit_urgent(std::move(request));
    else
      first_ = std::move(request);
  }

  std::shared_ptr<SelectionJob> job_;
  Task<SelectionJob> task_;  // ends after all below
  std::shared_ptr<ObjectChunks> chunks_;
  std::unique_ptr<Request> first_;
};

void submit(const Task<SelectionJob>& task) {
  const std::shared_ptr<SelectionJob>& job = task.job();
  ++job->workers.counters().reads;
  job->workers.counters().items += static_cast<std::int64_t>(job->request.items.size());
  std::unordered_map<std::string_view, std::size_t> position;
  std::vector<std::vector<std::uint32_t>> objects;
  for (std::uint32_t i = 0; i < job->request.items.size(); ++i) {
    const auto [at, is_new] = position.try_emplace(job->request.items[i].key, objects.size());
    if (is_new) objects.emplace_back();
    objects[at->second].push_back(i);
  }
  const auto failure = failure_of([&] {
    for (const auto& items : objects) job->workers.submit(std::make_unique<ObjectRead>(job, items));
  });
  if (failure) job->fail(*failure);  // what was submitted runs: it ends with the read, and not before
}

}  // namespace

SelectionRead::SelectionRead(ReadWorkers& workers, SelectionRequest request, std::function<void()> ended)
    : job_(std::make_shared<SelectionJob>(workers, std::move(request), std::move(ended))) {}

void SelectionRead::start() {
  const auto task = std::make_shared<Task<SelectionJob>>(job_);
  const SelectionRequest& request = job_->request;
  if (!request.device) return submit(*task);
  job_->waves = std::make_unique<ReadWaves>(request.device, request.after,
                                            [job = job_.get()](const Error& error) { job->fail(error); });
  request.device->take_turn([task] {
    submit(*task);
    task->end();
  });
}

}  // namespace damacy
