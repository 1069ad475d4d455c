#include "damacy/batch/batch_planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/core/on_failure.h"
#include "damacy/fetch/readers.h"

namespace damacy {

namespace {

// Whether what is announced of the array's objects is all that is needed to open them.
bool is_one_answer(const Array& array) {
  const std::vector<ShardLevel>& levels = array.metadata().shards;
  const bool is_plain = levels.empty() || (levels.size() == 1 && levels.front().codecs.codecs().empty());
  return is_plain && array.store() != nullptr && array.store()->can_expect();
}

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
bool open_shards(const Planning& with, const std::shared_ptr<ChunkTasks>& tasks, const std::stop_token& stop) {
  const BatchPlan& plan = tasks->plan();
  const bool are_expected = plan.shards.size() <= kExpectedAtOnce &&
                            std::ranges::all_of(plan.arrays, [](const Array* array) { return is_one_answer(*array); });
  const std::size_t at_once = are_expected ? 1 : with.readers.contexts().size();
  return with.readers.run_and_wait(std::make_shared<ShardOpening>(tasks), plan.shards.size(), at_once, stop,
                                   with.while_waiting);
}

// The store is asked for what it was not asked for before. A thread that plans is not one that may hang in it.
class ReadsTaking final : public AwaitedCalls {
 public:
  explicit ReadsTaking(std::shared_ptr<ChunkTasks> tasks) : tasks_(std::move(tasks)), task_(tasks_) {}
  void call(std::size_t) override { tasks_->take_reads(); }
  void time_out(std::size_t, const Error&) noexcept override {}  // they are read as usual

 private:
  void ended() noexcept override { task_.end(); }

  const std::shared_ptr<ChunkTasks> tasks_;
  Task<ChunkTasks> task_;
};

Error closed_meanwhile() {
  return Error(Status::shutdown, "the pipeline was closed while a batch was planned", "closed");
}

void plan_portion(const std::shared_ptr<BatchJob>& job, const Planning& with, std::uint32_t portion,
                  std::uint32_t portions, std::shared_ptr<Announcement> announcement, const std::stop_token& stop,
                  StatsBoard::Span& planning, const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) {
  const Stopwatch watch;
  const Task task(
      std::make_shared<ChunkTasks>(job, plan_batch(job->parts(), portion, portions), with, std::move(announcement)));
  const std::shared_ptr<ChunkTasks>& tasks = task.job();
  const struct Close {
    ChunkTasks& tasks;
    ~Close() { tasks.planned(); }
  } close{*tasks};
  tasks->take_failures(stop);
  if (!open_shards(with, tasks, stop)) throw closed_meanwhile();
  tasks->find_chunks();
  if (tasks->is_announced() &&
      !with.readers.run_and_wait(std::make_shared<ReadsTaking>(tasks), 1, 1, stop, with.while_waiting))
    throw closed_meanwhile();
  planning += watch.elapsed();
  each(tasks);
}

// Begins the reads of a batch that has no slot: of chunks in objects that were announced, once these are open. What
// fails is reported when the batch is planned.
class ReadingAhead {
 public:
  ReadingAhead(std::span<const PlannedPart> parts, BatchPlan plan, const Planning& with,
               const std::shared_ptr<Announcement>& announcement)
      : parts_(parts.begin(), parts.end()),
        plan_(std::make_shared<const BatchPlan>(std::move(plan))),
        catalog_(with.catalog),
        verify_(with.verify),
        announcement_(announcement) {}

  void operator()() const {
    const auto announcement = announcement_.lock();
    if (!announcement || !announcement->begin_opening()) return;
    static_cast<void>(failure_of([&] {
      Wants wants = wants_of(*plan_);
      locate(wants, *announcement);
      choose_parts(wants, [&](std::size_t chunk) { return needed_bytes(*plan_, parts_, chunk, verify_); });
      announcement->begin_reads(std::move(wants));
    }));
    announcement->end_opening();
  }

 private:
  // Chunks of other objects count as failed.
  void locate(Wants& wants, Announcement& announcement) const {
    std::size_t announced = announcement.objects().size();
    for (std::uint32_t s = 0; s < plan_->shards.size(); ++s) {
      const PlannedShard& planned = plan_->shards[s];
      const Array& array = *plan_->arrays[planned.array];
      const bool is_announced = !planned.is_constant && array.is_remote() && announced > 0;
      if (is_announced) --announced;
      const auto chunks = std::span(wants.chunks).subspan(planned.first_chunk, planned.chunk_count);
      for (Want& want : chunks) want.place = {.failed = true};
      if (!is_announced || !is_one_answer(array) || came_with_its_object(array.metadata())) continue;
      static_cast<void>(failure_of([&] {
        std::shared_ptr<const Shard> shard;
        announcement.open(s, [&] { shard = catalog_->shard(array, planned.shard); });
        if (!shard) return;
        set_object(wants, *plan_, s, shard->object);
        for (std::size_t c = 0; c < chunks.size(); ++c)
          chunks[c].place = place_of_chunk(array, shard.get(), plan_->chunks[planned.first_chunk + c].index_in_shard);
      }));
    }
  }

  const std::vector<PlannedPart> parts_;
  const std::shared_ptr<const BatchPlan> plan_;
  const std::shared_ptr<Catalog> catalog_;
  const Verify verify_;
  const std::weak_ptr<Announcement> announcement_;
};

}  // namespace

bool Announcer::add(const std::shared_ptr<Announcement>& announcement, std::function<void()> begin_reads) {
  const Lock lock(mutex_);
  unasked_.push_back(announcement);
  if (begin_reads) reads_.push_back({announcement, std::move(begin_reads)});
  return !std::exchange(is_called_, true);
}

void Announcer::call(std::size_t) {
  const OnFailure undo([this] {
    const Lock lock(mutex_);
    is_called_ = false;
  });
  while (const auto step = next()) step();
}

void Announcer::time_out(std::size_t, const Error& why) noexcept {
  const Lock lock(mutex_);
  is_called_ = false;
  if (const auto now = now_.lock()) now->time_out(why);
}

void Announcer::clear() noexcept {
  const Lock lock(mutex_);
  unasked_.clear();
  reads_.clear();
}

std::function<void()> Announcer::next() {
  std::shared_ptr<Announcement> first;  // ends without the lock
  const Lock lock(mutex_);
  if (!unasked_.empty()) {
    now_ = unasked_.front();
    first = now_.lock();
    if (first && first->has_more()) return [first] { first->ask_next(); };
    unasked_.pop_front();
    return [] {};
  }
  is_called_ = !reads_.empty();
  if (!is_called_) return nullptr;
  BatchReads reads = std::move(reads_.front());
  reads_.pop_front();
  now_ = reads.of;
  return std::move(reads.begin);
}

void plan_portions(const Task<BatchJob>& task, const Planning& with, std::shared_ptr<Announcement> announcement,
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
    BatchPlan plan = plan_batch(job.parts(), 0, count_portions(job.parts(), records));
    std::vector<RemoteObject> objects = remote_objects(plan);
    for (RemoteObject& object : objects) object.again = ahead_->reads_chunks();
    const auto announcement = std::make_shared<Announcement>(std::move(objects), ahead_);
    if (announcement->objects().empty()) return;
    announced_[&job] = announcement;
    if (const auto ahead = engine_->decoded_ahead())
      static_cast<void>(failure_of([&] { announcement->want_decoded(ahead, places_decoded(plan)); }));
    std::function<void()> begin_reads;
    if (ahead_->reads_chunks()) begin_reads = ReadingAhead(job.parts(), std::move(plan), planning_, announcement);
    if (!announcer_->add(announcement, std::move(begin_reads))) return;
    if (const auto failure = failure_of([&] { readers_->run_in_background(announcer_); }))
      announcer_->time_out(0, *failure);
  }));
}

void BatchPlanner::fail(BatchJob& job, const Error& why) noexcept {
  announced_.erase(&job);
  job.fail_all(why);
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
