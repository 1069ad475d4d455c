// What callers wait for: pop() for the next batch or error, flush() for the end of all batches in production.
#include <algorithm>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/pipeline/pipeline_impl.h"

namespace damacy {

Batch PipelineImpl::pop(const Deadline& deadline) {
  for (;;) {
    await_due(deadline);
    if (auto batch = take_due()) return std::move(*batch);  // else another thread was quicker
  }
}

void PipelineImpl::await_due(const Deadline& deadline) {
  check_not_forked();
  Lock lock(wakeup->mutex);
  check_usable();
  refuse_reentry("pop");
  const auto since = std::chrono::steady_clock::now();
  bool out_of_memory = false;  // for another slot
  for (bool waited = false;; waited = true) {
    // Each time: batches of which every row was skipped leave by themselves. But what became ready meanwhile does not
    // wait until samples were pulled.
    if (!waited || !stream.is_due()) refill(lock, nullptr);
    check_usable();
    if (!waited) adjust_slots(lock);
    if (stream.has_due_error()) return;
    const SampleStream::Item* front = stream.front();
    if (front == nullptr)
      throw Error(Status::again,
                  formatted("nothing to pop: {} samples are too few for a batch: push more, or call flush()",
                            stream.unbatched()),
                  "empty")
          .in_stage("pop");
    if (front->settled) {
      if (waited) record_wait(*front->job, since);
      return;
    }
    if (const auto held = slots->held_batches(); !held.empty() && !front->started) {
      const Slots::Growth growth = out_of_memory ? Slots::Growth::no_memory : add_slot(lock);
      out_of_memory = growth == Slots::Growth::no_memory;
      if (growth != Slots::Growth::added) throw held_error(held);
    }
    const auto changed = [&]() DAMACY_REQUIRES(wakeup->mutex) {
      const SampleStream::Item* now = stream.front();
      return closed || is_short_of_samples() || now == nullptr || now->settled ||
             (!now->started && !slots->held_batches().empty());
    };
    if (!wait(lock, deadline, changed)) {
      front = stream.front();
      throw Error(Status::again,
                  formatted("batch {} was not ready in time: {}", front->job->shape().id,
                            front->started ? "it is in production" : "it waits for a slot"),
                  "timeout")
          .with_kind(ErrorKind::pop_timeout)
          .in_stage("pop");
    }
  }
}

void PipelineImpl::record_wait(const BatchJob& job, std::chrono::steady_clock::time_point since) {
  const auto now = std::chrono::steady_clock::now();
  const auto reads_end = std::clamp(job.reads_ended(), since, now);
  if (reads_end > since) board.record(&Stats::pop_wait_io, reads_end - since, 0, 0);
  if (now > reads_end) board.record(&Stats::pop_wait_compute, now - reads_end, 0, 0);
}

std::vector<Batch::NamedInfo> PipelineImpl::arrays_of(const BatchJob& job) const {
  std::vector<Batch::NamedInfo> arrays;
  for (const BatchLayout::Rows& rows : job.layout().arrays()) {
    BatchInfo info;
    info.device_ptr = reinterpret_cast<std::uintptr_t>(job.loan()->memory().data() + rows.begin);
    info.shape.push_back(job.delivered_rows());
    for (const auto extent : rows.extents) info.shape.push_back(extent);
    info.dtype = rows.dtype;
    info.batch_id = job.shape().id;
    info.ready_stream = batch_device ? production->engine().ready_stream() : 0;
    arrays.push_back({rows.name, info});
  }
  return arrays;
}

// Everything that can fail is done before the batch is removed from the stream.
std::optional<Batch> PipelineImpl::take_due() {
  check_not_forked();
  const Lock lock(wakeup->mutex);
  check_usable();
  if (auto error = stream.take_due_error()) std::rethrow_exception(error);
  const SampleStream::Item* front = stream.front();
  if (front == nullptr || !front->settled) return std::nullopt;
  const std::shared_ptr<BatchJob> job = front->job;
  if (job->failure()) {
    Error error = *job->failure();
    error.in_stage("pop");
    stream.drop_front();
    wakeup->changed.notify_all();
    throw error;
  }
  Batch batch(arrays_of(*job), batch_device, job->loan(), job->valid(), job->sample_indices(), job->origins());
  slots->hold(job->loan()->slot());
  stream.drop_front();
  static_cast<void>(job->take_loan());  // the batch has it
  board.add(&Stats::batches_emitted, 1);
  wakeup->changed.notify_all();
  // With added slots, handing out a batch lets another one be made. The planner also looks after slots without a fence.
  if (slots->any_free() || slots->any_unfenced()) wakeup->can_produce.notify_all();
  return batch;
}

void PipelineImpl::put_back(std::exception_ptr error) {
  const Lock lock(wakeup->mutex);
  stream.put_back_error(std::move(error));
  wakeup->changed.notify_all();
}

void PipelineImpl::flush(const Deadline& deadline) {
  check_not_forked();
  Lock lock(wakeup->mutex);
  check_usable();
  refuse_reentry("flush");
  if (!accepted_since_flush) return;
  const Stopwatch watch;
  stream.flush();
  accepted_since_flush = false;
  wakeup->can_produce.notify_all();
  const auto quiet = [&]() DAMACY_REQUIRES(wakeup->mutex) {
    return !stream.in_production() && !(stream.has_unstarted() && slots->any_free());
  };
  for (;;) {
    refill(lock, nullptr);
    if (!wait(lock, deadline,
              [&]() DAMACY_REQUIRES(wakeup->mutex) { return closed || is_short_of_samples() || quiet(); }))
      break;
    check_usable();
    if (!can_refill()) break;
  }
  board.record(&Stats::flush_wait, watch.elapsed(), 0, 0);
}

}  // namespace damacy
