#include "damacy/fetch/batch_planner.h"

namespace damacy {

void BatchPlanner::produce(const Task<BatchJob>& job, const std::stop_token& stop) noexcept {
  plan_portions(job, planning_, stop, [&](const std::shared_ptr<ChunkTasks>& tasks) { engine_->take(tasks, stop); });
  engine_->end_batch();
}

bool BatchPlanner::stop(const std::shared_ptr<void>& keep) noexcept {
  const bool left_behind = readers_->stop_reading(keep);
  engine_->finish();
  return readers_->stop(keep) || left_behind;
}

}  // namespace damacy
