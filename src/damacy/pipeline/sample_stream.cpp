#include "damacy/pipeline/sample_stream.h"

#include <algorithm>
#include <limits>

#include "damacy/core/checked.h"
#include "damacy/core/on_failure.h"

namespace damacy {
namespace {

std::int64_t samples_of(const Config& config, std::int64_t batches) {
  return checked_mul(batches, config.batch_size).value_or(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

SampleStream::SampleStream(const Config& config)
    : config_(config), lookahead_batches_(lookahead_of(config)), queue_depth_(samples_of(config, lookahead_batches_)) {}

void SampleStream::look_further_ahead() noexcept {
  lookahead_batches_ = lookahead_of(config_, /*is_far=*/true);
  queue_depth_ = samples_of(config_, lookahead_batches_);
}

void SampleStream::end_first_source(std::exception_ptr error) {
  if (sources_.front()->ends_run) form_batch();
  if (error) deferred_.push_back({accepted_, std::move(error)});
  sources_.pop_front();
}

void SampleStream::accept(PlannedSample sample, const std::shared_ptr<const BatchLayout>& layout, bool ends_batch) {
  layout_ = layout;
  run_.push_back(std::move(sample));
  ++accepted_;
  ++queued_;
  if (!ends_batch && static_cast<std::int64_t>(run_.size()) < config_.batch_size) return;
  const OnFailure undo([this] {
    run_.pop_back();
    --accepted_;
    --queued_;
  });
  form_batch();
}

void SampleStream::flush() {
  if (sources_.empty()) return form_batch();
  sources_.back()->ends_run = true;
  for (const auto& source : sources_) source->flushed = true;
}

void SampleStream::form_batch() {
  if (run_.empty()) return;
  const auto rows = static_cast<std::int64_t>(run_.size());
  BatchJob::Shape shape{next_batch_, accepted_ - rows, layout_, config_.on_error};
  auto job = std::make_shared<BatchJob>(std::move(shape), run_.size());
  batches_.push_back({job});
  job->set_rows(std::exchange(run_, {}));
  ++next_batch_;
  if (rows < config_.batch_size) ++truncated_;
}

std::shared_ptr<BatchJob> SampleStream::take_batch() noexcept {
  if (batches_.empty()) return nullptr;
  auto job = std::move(batches_.front().job);
  batches_.pop_front();
  planned_ -= std::min<std::size_t>(planned_, 1);
  announced_ -= std::min<std::size_t>(announced_, 1);
  return job;
}

bool SampleStream::has_unstarted() const noexcept {
  return std::any_of(batches_.begin(), batches_.end(), [](const Item& item) { return !item.started && !item.settled; });
}

bool SampleStream::in_production() const noexcept {
  return std::any_of(batches_.begin(), batches_.end(), [](const Item& item) { return item.started && !item.settled; });
}

std::shared_ptr<BatchJob> SampleStream::plan_next() noexcept {
  return batches_[planned_++].job;
}

std::shared_ptr<BatchJob> SampleStream::announce_next() noexcept {
  const std::size_t next = std::max(announced_, planned_);
  announced_ = next + 1;
  return batches_[next].job;
}

void SampleStream::leave_queue(const Item& item) noexcept {
  if (!item.started) queued_ -= static_cast<std::int64_t>(item.job->row_count());
}

void SampleStream::mark_started(const BatchJob& job) {
  for (Item& item : batches_) {
    if (item.job.get() != &job) continue;
    leave_queue(item);
    item.started = true;
  }
}

void SampleStream::mark_settled(const BatchJob& job) {
  // A batch of which every row was skipped is not delivered; it leaves from wherever it stands.
  const bool leaves = !job.failure() && job.delivered_rows() == 0;
  for (auto item = batches_.begin(); item != batches_.end(); ++item) {
    if (item->job.get() != &job) continue;
    leave_queue(*item);
    item->started = item->settled = true;
    if (!leaves) return;
    --planned_;
    announced_ -= std::min<std::size_t>(announced_, 1);
    batches_.erase(item);
    return;
  }
}

void SampleStream::drop_front() {
  batches_.pop_front();
  --planned_;
  announced_ -= std::min<std::size_t>(announced_, 1);
}

bool SampleStream::has_due_error() const noexcept {
  return !deferred_.empty() && (batches_.empty() || deferred_.front().place < batches_.front().job->end_sample());
}

bool SampleStream::is_due() const noexcept {
  return has_due_error() || (!batches_.empty() && batches_.front().settled);
}

std::exception_ptr SampleStream::take_due_error() {
  if (!has_due_error()) return nullptr;
  auto error = std::move(deferred_.front().error);
  deferred_.pop_front();
  return error;
}

}  // namespace damacy
