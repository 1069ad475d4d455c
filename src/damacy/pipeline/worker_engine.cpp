#include "damacy/pipeline/worker_engine.h"

#include <algorithm>
#include <atomic>

#include "damacy/core/limits.h"
#include "damacy/core/text.h"
#include "damacy/io/coalesce.h"
#include "damacy/pipeline/chunk_task.h"

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
  void complete(std::size_t, const Part&, const Error*) noexcept override {}

 private:
  std::function<void()> task_;
};

}  // namespace

struct WorkerEngine::Impl {
  Impl(const Config& c, const std::shared_ptr<Alloc>& alloc, std::shared_ptr<Catalog> catalog_, StatsBoard& board_)
      : catalog(std::move(catalog_)),
        board(board_),
        staging(alloc, static_cast<std::size_t>(c.host_buffer_bytes)),
        scratch(alloc, static_cast<std::size_t>(c.device_buffer_bytes)),
        contexts(static_cast<std::size_t>(c.n_io_threads + c.n_compute_threads)),
        engine(make_thread_engine(contexts.size())) {}

  std::shared_ptr<Catalog> catalog;
  StatsBoard& board;
  Arena staging;
  Arena scratch;
  std::vector<DecodeContext> contexts;  // one a thread
  std::unique_ptr<Engine> engine;       // last: its threads use all of the above

  void open_shards(const std::shared_ptr<ChunkTasks>& tasks);
};

WorkerEngine::WorkerEngine(const Config& config, const std::shared_ptr<Alloc>& alloc, std::shared_ptr<Catalog> catalog,
                           StatsBoard& board)
    : impl_(std::make_unique<Impl>(config, alloc, std::move(catalog), board)) {}

WorkerEngine::~WorkerEngine() = default;

void WorkerEngine::stop() {
  impl_->engine.reset();
}
std::size_t WorkerEngine::staging_bytes() const noexcept {
  return impl_->staging.size();
}
std::size_t WorkerEngine::scratch_bytes() const noexcept {
  return impl_->scratch.peak();
}

void WorkerEngine::run_soon(std::function<void()> task) {
  impl_->engine->submit_urgent(std::make_unique<TaskRequest>(std::move(task)));
}

// Indices that are not cached are read side by side: on a cold disk they are what the first batch waits for.
void WorkerEngine::Impl::open_shards(const std::shared_ptr<ChunkTasks>& tasks) {
  struct Progress {
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> opened{0};
  };
  const std::size_t shards = tasks->plan().shards.size();
  const auto progress = std::make_shared<Progress>();
  const auto lane = [tasks, progress, shards, this] {
    for (std::size_t i = progress->next++; i < shards; i = progress->next++) {
      tasks->open_shard(i, *catalog);
      if (++progress->opened == shards) progress->opened.notify_all();
    }
  };
  for (std::size_t i = 1; i < std::min(shards, contexts.size()); ++i)
    engine->submit_urgent(std::make_unique<TaskRequest>(lane));
  lane();  // this thread takes part, so it ends even if no reader ever joins
  for (std::size_t opened = progress->opened; opened < shards; opened = progress->opened) progress->opened.wait(opened);
}

void WorkerEngine::produce(const std::shared_ptr<BatchJob>& job, std::stop_token stop) {
  const auto records = static_cast<std::int64_t>(Limits::chunk_records_planned);
  const std::uint32_t portions = count_portions(job->rows(), records);
  for (std::uint32_t portion = 0; portion < portions && !stop.stop_requested(); ++portion) {
    const Stopwatch watch;
    const ChunkTasks::Place place{impl_->staging, impl_->scratch, impl_->contexts, impl_->board, *impl_->catalog};
    const auto tasks = std::make_shared<ChunkTasks>(job, plan_batch(job->rows(), portion, portions), place);
    impl_->open_shards(tasks);
    tasks->find_chunks();
    auto requests = ChunkTasks::make_requests(tasks);
    impl_->board.record(&Stats::plan, watch.elapsed(), 0,
                        static_cast<double>(job->row_bytes()) * static_cast<double>(job->rows().size()));
    impl_->board.add(&Stats::waves_emitted, 1);
    for (auto& request : requests) impl_->engine->submit(std::move(request));
    tasks->close_task();
  }
  job->close_task(impl_->board);
}

}  // namespace damacy
