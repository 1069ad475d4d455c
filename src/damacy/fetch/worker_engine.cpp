#include "damacy/fetch/worker_engine.h"

#include <algorithm>

#include "damacy/batch/place.h"
#include "damacy/core/checked.h"
#include "damacy/fetch/plan_portions.h"
#include "damacy/fetch/worker_requests.h"

namespace damacy {
namespace {

// One chunk a reader, and none is larger than those admitted: of what the cap allows beyond that nothing is reserved.
std::size_t scratch_bytes(const Config& config) {
  const auto largest = static_cast<std::uint64_t>(
      std::max<std::int64_t>(std::min(chunk_bytes_buffers_hold(config), chunk_bytes_allowed(config)), 1));
  const auto readers = static_cast<std::uint64_t>(config.n_io_threads + config.n_compute_threads);
  return std::min(static_cast<std::uint64_t>(config.device_buffer_bytes),
                  readers * round_up<std::uint64_t>(largest, Arena::kPieceAlignment));
}

}  // namespace

WorkerEngine::WorkerEngine(const Config& config, const std::shared_ptr<Alloc>& alloc, std::shared_ptr<Catalog> catalog,
                           StatsBoard& board, const std::shared_ptr<const Clock>& clock)
    : catalog_(std::move(catalog)),
      board_(board),
      verify_(config.verify),
      staging_(alloc, static_cast<std::size_t>(config.host_buffer_bytes)),
      scratch_(alloc, scratch_bytes(config)),
      readers_(config, clock) {}

void HostRows::fill_row(BatchJob& job, std::size_t row) {
  place_fill(job, row, Box{Dims(job.shape().extents.size(), 0), job.shape().extents});
}

void HostRows::move_row(BatchJob& job, std::size_t from, std::size_t to) {
  std::ranges::copy(job.row_memory(from), job.row_memory(to).begin());
}

void WorkerEngine::produce(const std::shared_ptr<BatchJob>& job, std::stop_token stop) noexcept {
  plan_portions(job, {&readers_, board_, catalog_, verify_}, stop, [&](const std::shared_ptr<ChunkTasks>& tasks) {
    board_.add(&Stats::waves_emitted, 1);
    for (auto& request : make_worker_requests(tasks, {staging_, scratch_, readers_.contexts(), share_}))
      readers_.submit(std::move(request));
  });
}

}  // namespace damacy
