#include "damacy/pipeline/readers.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace damacy {
namespace {

// Some work that reads nothing by the engine's own hand.
class TaskRequest final : public Request {
 public:
  explicit TaskRequest(std::function<void()> task) : task_(std::move(task)) {}
  Part prepare(std::size_t, std::stop_token) override {
    task_();
    return {};
  }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    if (failure != nullptr && failure->status() != Status::shutdown) task_();  // it was not taken: here, then
  }

 private:
  std::function<void()> task_;
};

// As many threads as cores, or fewer, read from memory for the most part: the threads that feed a device, and its
// consumer, need cores too. More threads than cores are for storage that lets them sleep.
std::size_t readers_at_once(const Config& config) {
  const std::int64_t cores = std::thread::hardware_concurrency();
  const std::int64_t others = std::max<std::int64_t>(1, cores / 3);
  const std::int64_t wanted = config.n_io_threads;
  return static_cast<std::size_t>(wanted > cores ? wanted
                                                 : std::max<std::int64_t>(1, std::min(wanted, cores - others)));
}

}  // namespace

Readers::Readers(const Config& config)
    : contexts_(static_cast<std::size_t>(config.n_io_threads + config.n_compute_threads)),
      at_once_(readers_at_once(config)),
      engine_(make_thread_engine(contexts_.size(), at_once_)) {}

void Readers::run_soon(std::function<void()> task) {
  engine_->submit_urgent(std::make_unique<TaskRequest>(std::move(task)));
}

void Readers::open_shards(const std::shared_ptr<ChunkTasks>& tasks) {
  struct Progress {
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> opened{0};
  };
  const std::size_t shards = tasks->plan().shards.size();
  const auto progress = std::make_shared<Progress>();
  const auto lane = [tasks, progress, shards] {
    for (std::size_t i = progress->next++; i < shards; i = progress->next++) {
      tasks->open_shard(i);
      if (++progress->opened == shards) progress->opened.notify_all();
    }
  };
  try {
    for (std::size_t i = 1; i < std::min(shards, contexts_.size()); ++i) run_soon(lane);
  } catch (const std::bad_alloc&) {  // fewer take part
  }
  lane();  // this thread takes part, so it ends even if no reader ever joins
  for (std::size_t opened = progress->opened; opened < shards; opened = progress->opened) progress->opened.wait(opened);
}

}  // namespace damacy
