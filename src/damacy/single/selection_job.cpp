#include "damacy/single/selection_job.h"

#include <utility>

#include "damacy/core/mutex.h"

namespace damacy {

SelectionJob::SelectionJob(ReadWorkers& with, SelectionRequest what, std::function<void()> then)
    : workers(with),
      request(std::move(what)),
      memory(workers.memory_for(*request.object)),
      missing(request.items.size(), 0),
      ended_(std::move(then)) {
  request.store = make_watched_store(std::move(request.store));
}

void SelectionJob::settle() noexcept {
  if (waves) {
    waves->finish();
    waves.reset();
    request.device->end_turn();
  }
  if (!memory_stays) memory.reset();
  const auto ended = std::move(ended_);
  ended();
}

void SelectionJob::check_wanted() const {
  if (cancelled_) throw Error(Status::shutdown, "the read was cancelled", "cancelled");
  if (failed_) throw Error(Status::shutdown, "another part of the read failed", "failed");
}

// The first failure counts; parts that stop because of it come later.
void SelectionJob::fail(const Error& error) noexcept {
  const Lock lock(mutex_);
  if (!failure_) failure_ = error;
  failed_ = true;
}

}  // namespace damacy
