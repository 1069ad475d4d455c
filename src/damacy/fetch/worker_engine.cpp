#include "damacy/fetch/worker_engine.h"

#include <algorithm>

#include "damacy/copy/block_copy.h"
#include "damacy/fetch/worker_requests.h"

namespace damacy {
WorkerEngine::WorkerEngine(const MemoryPlan& plan, const std::shared_ptr<Alloc>& alloc, Readers& readers,
                           StatsBoard& board)
    : readers_(readers),
      board_(board),
      staging_(make_part(PartId::staging, [&] { return Arena(alloc, plan.staging); })),
      scratch_(make_part(PartId::scratch, [&] { return Arena(alloc, plan.scratch); })) {}

void HostRows::fill_part(BatchJob& job, std::size_t part) {
  const ArrayMetadata& metadata = job.parts()[part].array->metadata();
  job.for_fill(part, [&](const BlockCopy& copy) {
    run_block_copy(copy, std::span(metadata.fill).first(size_of(metadata.dtype)), job.memory());
  });
}

void HostRows::move_row(std::span<std::byte> to, std::span<const std::byte> from) {
  std::ranges::copy(from, to.begin());
}

void WorkerEngine::take(const std::shared_ptr<ChunkTasks>& tasks, std::stop_token) {
  board_.add(&Stats::waves_emitted, 1);
  for (auto& request : make_worker_requests(tasks, {staging_, scratch_, readers_.contexts(), share_}))
    readers_.submit(std::move(request));
}

}  // namespace damacy
