#include "damacy/single/selection_job.h"

#include <utility>

#include "damacy/core/mutex.h"

namespace damacy {

SelectionJob::SelectionJob(SelectionReaders& with, SelectionRequest what, std::function<void()> then)
    : readers(with),
      request(std::move(what)),
      missing(request.items.size(), 0),
      memory_(readers.memory_for(*request.object)),
      ended_(std::move(then)) {
  request.store = make_watched_store(std::move(request.store));
  if (!request.keeps_indices || request.device != nullptr) request.cache.reset();
}

DecodeMemory SelectionJob::memory_of_readers() const {
  return {memory_->staging, memory_->scratch, readers.threads().contexts(), memory_};
}

// Memory and cache are not needed any more, except by reads that storage still holds.
void SelectionJob::settle() noexcept {
  memory_.reset();
  request.cache.reset();  // the caller may drop it next
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
