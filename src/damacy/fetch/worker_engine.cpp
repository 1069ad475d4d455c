#include "damacy/fetch/worker_engine.h"

#include <algorithm>

#include "damacy/batch/place.h"
#include "damacy/fetch/worker_requests.h"

namespace damacy {
WorkerEngine::WorkerEngine(const MemoryPlan& plan, const std::shared_ptr<Alloc>& alloc, Readers& readers,
                           StatsBoard& board)
    : readers_(readers),
      board_(board),
      staging_(make_part(PartId::staging, [&] { return Arena(alloc, plan.staging); })),
      scratch_(make_part(PartId::scratch, [&] { return Arena(alloc, plan.scratch); })) {}

void HostRows::fill_row(BatchJob& job, std::size_t row) {
  place_fill(job, row, Box{Dims(job.shape().extents.size(), 0), job.shape().extents});
}

void HostRows::move_row(BatchJob& job, std::size_t from, std::size_t to) {
  std::ranges::copy(job.row_memory(from), job.row_memory(to).begin());
}

void WorkerEngine::take(const std::shared_ptr<ChunkTasks>& tasks, std::stop_token) {
  board_.add(&Stats::waves_emitted, 1);
  for (auto& request : make_worker_requests(tasks, {staging_, scratch_, readers_.contexts(), share_}))
    readers_.submit(std::move(request));
}

}  // namespace damacy
