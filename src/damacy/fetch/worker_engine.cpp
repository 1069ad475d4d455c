#include "damacy/fetch/worker_engine.h"

#include <algorithm>
#include <new>

#include "damacy/copy/block_copy.h"
#include "damacy/core/formatted.h"
#include "damacy/fetch/worker_requests.h"

namespace damacy {
namespace {

std::unique_ptr<ChunkCache> make_cache(const MemoryPlan& plan, const std::shared_ptr<Alloc>& alloc) {
  if (plan.cache == 0) return nullptr;
  return make_part(PartId::cache, [&] {
    try {
      return std::make_unique<ChunkCache>(plan.cache, alloc);
    } catch (const std::bad_alloc&) {
      throw Error(Status::oom, formatted("no memory for the index of a cache of {} bytes", plan.cache), "memory");
    }
  });
}

}  // namespace

WorkerEngine::WorkerEngine(const MemoryPlan& plan, const std::shared_ptr<Alloc>& alloc, Readers& readers,
                           StatsBoard& board)
    : readers_(readers),
      board_(board),
      cache_bytes_(plan.cache),
      cache_(make_cache(plan, alloc)),
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
  for (auto& request : make_worker_requests(tasks, {staging_, scratch_, readers_.contexts(), share_, cache_.get()}))
    readers_.submit(std::move(request));
}

}  // namespace damacy
