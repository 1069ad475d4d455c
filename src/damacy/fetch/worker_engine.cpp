#include "damacy/fetch/worker_engine.h"

#include <algorithm>

#include "damacy/batch/place.h"
#include "damacy/fetch/plan_portions.h"
#include "damacy/fetch/worker_requests.h"

namespace damacy {
WorkerEngine::WorkerEngine(const MemoryPlan& plan, Verify verify, const std::shared_ptr<Alloc>& alloc,
                           std::shared_ptr<Catalog> catalog, StatsBoard& board,
                           const std::shared_ptr<const Clock>& clock)
    : catalog_(std::move(catalog)),
      board_(board),
      verify_(verify),
      staging_(make_part(PartId::staging, [&] { return Arena(alloc, plan.staging); })),
      scratch_(make_part(PartId::scratch, [&] { return Arena(alloc, plan.scratch); })),
      readers_(plan.threads, clock) {}

void HostRows::fill_row(BatchJob& job, std::size_t row) {
  place_fill(job, row, Box{Dims(job.shape().extents.size(), 0), job.shape().extents});
}

void HostRows::move_row(BatchJob& job, std::size_t from, std::size_t to) {
  std::ranges::copy(job.row_memory(from), job.row_memory(to).begin());
}

void WorkerEngine::produce(const Task<BatchJob>& job, std::stop_token stop) noexcept {
  plan_portions(job, {&readers_, board_, catalog_, verify_}, stop, [&](const std::shared_ptr<ChunkTasks>& tasks) {
    board_.add(&Stats::waves_emitted, 1);
    for (auto& request : make_worker_requests(tasks, {staging_, scratch_, readers_.contexts(), share_}))
      readers_.submit(std::move(request));
  });
}

}  // namespace damacy
