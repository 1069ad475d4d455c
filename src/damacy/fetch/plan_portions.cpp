#include "damacy/fetch/plan_portions.h"

#include "damacy/core/limits.h"

namespace damacy {

namespace {

Error closed_meanwhile() {
  return Error(Status::shutdown, "the pipeline was closed while a batch was planned", "closed");
}

void plan_portion(const std::shared_ptr<BatchJob>& job, const Planning& with, std::uint32_t portion,
                  std::uint32_t portions, const std::stop_token& stop, StatsBoard::Span& planning,
                  const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) {
  const Stopwatch watch;
  const auto tasks = std::make_shared<ChunkTasks>(job, plan_batch(job->rows(), portion, portions), with);
  const struct Close {
    ChunkTasks& tasks;
    ~Close() { tasks.planned(); }
  } close{*tasks};
  if (!with.readers->open_shards(tasks, stop)) throw closed_meanwhile();
  tasks->find_chunks();
  planning += watch.elapsed();
  each(tasks);
}

}  // namespace

void plan_portions(const std::shared_ptr<BatchJob>& job, const Planning& with, const std::stop_token& stop,
                   const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) noexcept {
  const auto records = static_cast<std::int64_t>(Limits::chunk_records_planned);
  const double batch_bytes = static_cast<double>(job->row_bytes()) * static_cast<double>(job->rows().size());
  StatsBoard::Span planning{};
  try {
    const std::uint32_t portions = count_portions(job->rows(), records);
    for (std::uint32_t portion = 0; portion < portions; ++portion) {
      if (stop.stop_requested()) throw closed_meanwhile();
      plan_portion(job, with, portion, portions, stop, planning, each);
    }
  } catch (...) {
    job->fail_all_in_flight();
  }
  with.board.record(&Stats::plan, planning, 0, batch_bytes);
  job->close_task(with.board);
}

}  // namespace damacy
