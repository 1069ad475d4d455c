#include "damacy/pipeline/sample_stream.h"

#include <algorithm>

namespace damacy {

void SampleStream::end_first_source() {
  const bool ends_run = sources_.front()->ends_run;
  sources_.pop_front();
  if (ends_run) form_batch();
}

void SampleStream::accept(PlannedSample sample) {
  if (!extents_) extents_ = sample.box.extents();
  run_.push_back(std::move(sample));
  ++accepted_;
  ++queued_;
  if (static_cast<std::int64_t>(run_.size()) == config_.batch_size) form_batch();
}

void SampleStream::flush() {
  if (sources_.empty()) return form_batch();
  sources_.back()->ends_run = true;
  for (const auto& source : sources_) source->flushed = true;
}

void SampleStream::form_batch() {
  if (run_.empty()) return;
  const auto rows = static_cast<std::int64_t>(run_.size());
  if (rows < config_.batch_size) ++truncated_;
  BatchJob::Shape shape{next_batch_++, accepted_ - rows, *extents_, config_.dtype, config_.on_error};
  batches_.push_back({std::make_shared<BatchJob>(std::move(shape), std::move(run_))});
  run_.clear();
}

bool SampleStream::in_production() const noexcept {
  return std::any_of(batches_.begin(), batches_.begin() + static_cast<std::ptrdiff_t>(started_),
                     [](const Item& item) { return !item.settled; });
}

void SampleStream::mark_started() {
  Item& item = batches_[started_++];
  item.started = true;
  queued_ -= static_cast<std::int64_t>(item.job->rows().size());
}

void SampleStream::mark_settled(const BatchJob& job) {
  for (Item& item : batches_)
    if (item.job.get() == &job) item.settled = true;
  // A batch of which every row was skipped is not delivered; it leaves from wherever it stands.
  for (std::size_t i = 0; i < started_;) {
    const Item& item = batches_[i];
    if (item.settled && !item.job->failure() && item.job->delivered_rows() == 0) {
      batches_.erase(batches_.begin() + static_cast<std::ptrdiff_t>(i));
      --started_;
    } else {
      ++i;
    }
  }
}

void SampleStream::drop_front() {
  batches_.pop_front();
  --started_;
}

bool SampleStream::has_due_error() const noexcept {
  return !deferred_.empty() && (batches_.empty() || deferred_.front().place < batches_.front().job->end_sample());
}

std::exception_ptr SampleStream::take_due_error() {
  if (!has_due_error()) return nullptr;
  auto error = std::move(deferred_.front().error);
  deferred_.pop_front();
  return error;
}

}  // namespace damacy
