// The planner thread of a pipeline: announces accepted batches, waits for their slots, and plans them, in order.
#include <chrono>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/pipeline/pipeline_impl.h"

namespace damacy {
namespace {

constexpr auto kFenceRetry = std::chrono::milliseconds(2);

}  // namespace

void PipelineImpl::plan_batches(std::stop_token stop) {
  // A failed row that is to be filled needs its slot even when nothing else is written to it.
  BatchEngine& engine = production->engine();
  const bool ahead = engine.runs_ahead() && config.on_error != OnError::fill;
  production->set_while_waiting([this] { announce_more(); });
  while (const std::shared_ptr<BatchJob> job = next_to_plan(stop, ahead)) {
    job->start(
        {[this](BatchJob& claimer) { return lend(claimer); }, [this](BatchJob& settled) { on_settled(settled); }},
        engine.rows(), board);
    const Task task(job);
    const auto failure = ahead ? std::nullopt : failure_of([&] { job->claim(); });
    if (failure) {
      production->fail(*job, *failure);
    } else {
      production->produce(task, stop);
    }
  }
}

// Null if the pipeline closes first. Unless planning runs `ahead`, there is also a free slot. Announces the next one
// and those behind it, in order: a remote store then answers while that one waits for its slot or for its own objects.
std::shared_ptr<BatchJob> PipelineImpl::next_to_plan(const std::stop_token& stop, bool ahead) {
  Lock lock(wakeup->mutex);
  const auto can_plan = [&]() DAMACY_REQUIRES(wakeup->mutex) {
    return stream.has_unplanned() && (ahead || slots->any_free());
  };
  if (!can_plan()) {
    lock.unlock();
    production->engine().flush();
    lock.lock();
  }
  for (;;) {
    if (!wait_for_slots(lock, stop, [&]() DAMACY_REQUIRES(wakeup->mutex) { return can_plan() || can_announce(); }))
      return nullptr;
    if (!can_announce()) return stream.plan_next();
    announce_next(lock);
  }
}

bool PipelineImpl::can_announce() const {
  return stream.has_unannounced() && production->can_announce();
}

void PipelineImpl::announce_next(Lock& lock) {
  const std::shared_ptr<BatchJob> later = stream.announce_next();
  const LockRelease meanwhile(lock, wakeup->mutex);
  production->announce(*later);
}

// While the objects of an earlier one are waited for.
void PipelineImpl::announce_more() {
  Lock lock(wakeup->mutex);
  while (can_announce()) announce_next(lock);
}

// False if stopped. A wait for a free slot must poll while fences cannot be recorded.
template <class Ready>
bool PipelineImpl::wait_for_slots(Lock& lock, const std::stop_token& stop, Ready ready) {
  while (!ready()) {
    if (stop.stop_requested()) return false;
    if (slots->any_unfenced())
      wakeup->can_produce.wait_for(lock, stop, kFenceRetry, ready);
    else
      wakeup->can_produce.wait(lock, stop,
                               [&]() DAMACY_REQUIRES(wakeup->mutex) { return ready() || slots->any_unfenced(); });
  }
  return true;
}

// One look finds the slot and takes it: between two, a pop may drop it.
std::shared_ptr<SlotLoan> PipelineImpl::lend(BatchJob& job) {
  Lock lock(wakeup->mutex);
  std::shared_ptr<SlotLoan> loan;
  const auto lent = [&]() DAMACY_REQUIRES(wakeup->mutex) {
    if (!loan && slots->any_free()) loan = slots->lend(job.shape().id);
    return loan != nullptr;
  };
  if (!wait_for_slots(lock, stopping.get_token(), lent))
    throw Error(Status::shutdown, "the pipeline was closed while a batch waited for its slot", "closed");
  stream.mark_started(job);
  if (is_short_of_samples()) wakeup->changed.notify_all();
  return loan;
}

}  // namespace damacy
