#include "damacy/batch/batch_planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/readers.h"

namespace damacy {

namespace {

class ShardOpening final : public AwaitedCalls {
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

 private:
  void ended() noexcept override { task_.end(); }

  const std::shared_ptr<ChunkTasks> tasks_;
  Task<ChunkTasks> task_;  // until all shards are done; without memory to queue the calls, until this is destroyed
  Mutex announcing_;
  bool is_announced_ DAMACY_GUARDED_BY(announcing_) = false;
};

// Opens all shards of a plan, side by side: on a cold disk their indices are what the first batch waits for. Those that
// a store was asked for together need one thread that waits: readers are for what has landed. False: stopped before.
bool open_shards(Readers& readers, const std::shared_ptr<ChunkTasks>& tasks, const std::stop_token& stop) {
  const BatchPlan& plan = tasks->plan();
  const auto is_expected = [](const Array* array) {
    const std::vector<ShardLevel>& levels = array->metadata().shards;
    const bool is_one_answer = levels.empty() || (levels.size() == 1 && levels.front().codecs.codecs().empty());
    return is_one_answer && array->store() != nullptr && array->store()->can_expect();
  };
  const bool are_expected = plan.shards.size() <= kExpectedAtOnce && std::ranges::all_of(plan.arrays, is_expected);
  const std::size_t at_once = are_expected ? 1 : readers.contexts().size();
  return readers.run_and_wait(std::make_shared<ShardOpening>(tasks), plan.shards.size(), at_once, stop);
}

Error closed_meanwhile() {
  return Error(Status::shutdown, "the pipeline was closed while a batch was planned", "closed");
}

void plan_portion(const std::shared_ptr<BatchJob>& job, const Planning& with, std::uint32_t portion,
                  std::uint32_t portions, std::shared_ptr<const Announcement> announcement, const std::stop_token& stop,
                  StatsBoard::Span& planning, const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) {
  const Stopwatch watch;
  const Task task(
      std::make_shared<ChunkTasks>(job, plan_batch(job->parts(), portion, portions), with, std::move(announcement)));
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

bool Announcer::add(std::vector<RemoteObject> objects) {
  const Lock lock(mutex_);
  std::ranges::move(objects, std::back_inserter(objects_));
  return !std::exchange(is_called_, true);
}

void Announcer::call(std::size_t) {
  while (const auto object = next()) expect({&*object, 1});
}

void Announcer::time_out(std::size_t, const Error&) noexcept {
  const Lock lock(mutex_);
  is_called_ = false;
}

void Announcer::clear() noexcept {
  const Lock lock(mutex_);
  objects_.clear();
}

std::optional<RemoteObject> Announcer::next() {
  const Lock lock(mutex_);
  is_called_ = !objects_.empty();
  if (!is_called_) return std::nullopt;
  RemoteObject first = std::move(objects_.front());
  objects_.pop_front();
  return first;
}

void plan_portions(const Task<BatchJob>& task, const Planning& with, std::shared_ptr<const Announcement> announcement,
                   const std::stop_token& stop,
                   const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) noexcept {
  const std::shared_ptr<BatchJob>& job = task.job();
  const auto records = static_cast<std::int64_t>(Limits::chunk_records_planned);
  const double batch_bytes = static_cast<double>(job->layout().sample_bytes()) * static_cast<double>(job->row_count());
  StatsBoard::Span planning{};
  const auto failure = failure_of([&] {
    const bool is_lost = std::ranges::all_of(job->parts(), [](const PlannedPart& part) { return part.is_lost; });
    const std::uint32_t portions = is_lost ? 0 : count_portions(job->parts(), records);
    for (std::uint32_t portion = 0; portion < portions; ++portion) {
      if (stop.stop_requested()) throw closed_meanwhile();
      plan_portion(job, with, portion, portions, std::move(announcement), stop, planning, each);
    }
  });
  if (failure) job->fail_all(*failure);
  with.board.record(&Stats::plan, planning, 0, batch_bytes);
}

bool BatchPlanner::can_announce() const noexcept {
  return ahead_->bytes() < ahead_->most() - ahead_->most() / 4;
}

void BatchPlanner::announce(const BatchJob& job) noexcept {
  static_cast<void>(failure_of([&] {
    if (std::ranges::none_of(job.parts(), [](const PlannedPart& part) { return part.array->is_remote(); })) return;
    const auto records = static_cast<std::int64_t>(Limits::chunk_records_planned);
    auto announcement = std::make_shared<const Announcement>(
        remote_objects(plan_batch(job.parts(), 0, count_portions(job.parts(), records))), ahead_);
    std::vector<RemoteObject> objects = announcement->objects();
    if (objects.empty()) return;
    announced_[&job] = std::move(announcement);
    if (!announcer_->add(std::move(objects))) return;
    if (const auto failure = failure_of([&] { readers_->run_in_background(announcer_); }))
      announcer_->time_out(0, *failure);
  }));
}

void BatchPlanner::produce(const Task<BatchJob>& job, const std::stop_token& stop) noexcept {
  auto found = announced_.extract(job.job().get());
  plan_portions(job, planning_, found ? std::move(found.mapped()) : nullptr, stop,
                [&](const std::shared_ptr<ChunkTasks>& tasks) { engine_->take(tasks, stop); });
  engine_->end_batch();
}

bool BatchPlanner::stop(const std::shared_ptr<void>& keep) noexcept {
  announcer_->clear();
  announced_.clear();
  const bool left_behind = readers_->stop_reading(keep);
  engine_->finish();
  return readers_->stop(keep) || left_behind;
}

}  // namespace damacy
