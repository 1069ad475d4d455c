#include "damacy/fetch/plan_portions.h"

#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/readers.h"

namespace damacy {

namespace {

class ShardOpening final : public BlockingCalls {
 public:
  explicit ShardOpening(std::shared_ptr<ChunkTasks> tasks) : tasks_(std::move(tasks)), task_(tasks_) {}
  // The first call announces all, so that remote stores ask for them together; no shard is opened before.
  void call(std::size_t shard) override {
    {
      const Lock lock(announcing_);
      if (!is_announced_) tasks_->expect_shards();
      is_announced_ = true;
    }
    tasks_->open_shard(shard);
  }
  void time_out(std::size_t shard, const Error& why) noexcept override { tasks_->fail_opening(shard, why); }
  void finish() {
    {
      const Lock lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    task_.end();
  }
  bool wait(const std::stop_token& stop) {
    Lock lock(mutex_);
    return changed_.wait(lock, stop, [this]() DAMACY_REQUIRES(mutex_) { return done_; });
  }

 private:
  const std::shared_ptr<ChunkTasks> tasks_;
  Task<ChunkTasks> task_;  // until all shards are done; without memory to queue the calls, until this is destroyed
  Mutex announcing_;
  bool is_announced_ DAMACY_GUARDED_BY(announcing_) = false;
  Mutex mutex_;
  StoppableCondition changed_;
  bool done_ DAMACY_GUARDED_BY(mutex_) = false;
};

// Opens all shards of a plan, side by side: on a cold disk their indices are what the first batch waits for. False:
// stopped before.
bool open_shards(Readers& readers, const std::shared_ptr<ChunkTasks>& tasks, const std::stop_token& stop) {
  const auto opening = std::make_shared<ShardOpening>(tasks);
  readers.run_blocking(opening, tasks->plan().shards.size(), readers.contexts().size(),
                       [opening] { opening->finish(); });
  return opening->wait(stop);
}

Error closed_meanwhile() {
  return Error(Status::shutdown, "the pipeline was closed while a batch was planned", "closed");
}

void plan_portion(const std::shared_ptr<BatchJob>& job, const Planning& with, std::uint32_t portion,
                  std::uint32_t portions, const std::stop_token& stop, StatsBoard::Span& planning,
                  const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) {
  const Stopwatch watch;
  const Task task(std::make_shared<ChunkTasks>(job, plan_batch(job->parts(), portion, portions), with));
  const std::shared_ptr<ChunkTasks>& tasks = task.job();
  const struct Close {
    ChunkTasks& tasks;
    ~Close() { tasks.planned(); }
  } close{*tasks};
  if (!open_shards(with.readers, tasks, stop)) throw closed_meanwhile();
  tasks->find_chunks();
  planning += watch.elapsed();
  each(tasks);
}

}  // namespace

void plan_portions(const Task<BatchJob>& task, const Planning& with, const std::stop_token& stop,
                   const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) noexcept {
  const std::shared_ptr<BatchJob>& job = task.job();
  const auto records = static_cast<std::int64_t>(Limits::chunk_records_planned);
  const double batch_bytes = static_cast<double>(job->layout().sample_bytes()) * static_cast<double>(job->row_count());
  StatsBoard::Span planning{};
  const auto failure = failure_of([&] {
    const std::uint32_t portions = count_portions(job->parts(), records);
    for (std::uint32_t portion = 0; portion < portions; ++portion) {
      if (stop.stop_requested()) throw closed_meanwhile();
      plan_portion(job, with, portion, portions, stop, planning, each);
    }
  });
  if (failure) job->fail_all(*failure);
  with.board.record(&Stats::plan, planning, 0, batch_bytes);
}

}  // namespace damacy
