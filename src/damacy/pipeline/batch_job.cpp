#include "damacy/pipeline/batch_job.h"

#include "damacy/core/log.h"
#include "damacy/core/text.h"

namespace damacy {

BatchJob::BatchJob(Shape shape, std::vector<PlannedSample> rows)
    : shape_(std::move(shape)),
      rows_(std::move(rows)),
      row_elements_(*product(shape_.extents.span())),
      row_strides_(row_major_strides(shape_.extents)),
      placed_(rows_.size()) {
  for (auto& stride : row_strides_) stride *= static_cast<std::int64_t>(size_of(shape_.dtype));
}

void BatchJob::start(Owner owner, RowWriter& writer) {
  writer_ = &writer;
  owner_ = std::move(owner);
  open_task();
}

void BatchJob::claim_slot() {
  if (!loan_) loan_ = owner_.lend(*this);
}

void BatchJob::close_task(StatsBoard& board) {
  if (open_tasks_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  settle(board);
  const Owner owner = std::move(owner_);
  owner.settled(*this);
}

void BatchJob::close_read() noexcept {
  if (open_reads_.fetch_sub(1) == 1) reads_ended_ns_ = std::chrono::steady_clock::now().time_since_epoch().count();
}

std::chrono::steady_clock::time_point BatchJob::reads_ended() const noexcept {
  if (open_reads_ > 0) return std::chrono::steady_clock::now();
  return std::chrono::steady_clock::time_point(std::chrono::steady_clock::duration(reads_ended_ns_.load()));
}

std::span<std::byte> BatchJob::row_memory(std::size_t row) const noexcept {
  const auto bytes = static_cast<std::size_t>(row_bytes());
  return loan_->memory().subspan(row * bytes, bytes);
}

void BatchJob::fail(std::size_t row, const Error& error) {
  const std::lock_guard lock(mutex_);
  errors_.resize(rows_.size());
  if (!errors_[row]) errors_[row] = error;
}

bool BatchJob::row_failed(std::size_t row) const {
  const std::lock_guard lock(mutex_);
  return row < errors_.size() && errors_[row];
}

std::vector<std::int64_t> BatchJob::all_indices() const {
  std::vector<std::int64_t> all(rows_.size());
  for (std::size_t row = 0; row < all.size(); ++row) all[row] = shape_.first_sample + static_cast<std::int64_t>(row);
  return all;
}

void BatchJob::settle(StatsBoard& board) {
  // Law 1: a row of which any element was not written in this use of the slot is a failure, whatever the reason.
  for (std::size_t row = 0; row < rows_.size(); ++row)
    if (placed_[row] != row_elements_ && !row_failed(row))
      fail(row, Error(Status::io,
                      text("internal: ", placed_[row].load(), " of ", row_elements_, " elements were placed"), "io")
                    .at_uri(rows_[row].array->uri()));

  valid_.assign(rows_.size(), true);
  indices_ = all_indices();
  if (errors_.empty()) return;
  if (shape_.on_error == OnError::raise) {
    std::int64_t failed = 0;
    for (std::size_t row = 0; row < errors_.size(); ++row) {
      if (!errors_[row]) continue;
      if (failed++ == 0) {
        failure_ = errors_[row];
        failure_->at_stream_index(indices_[row]).at_batch(shape_.id, all_indices());
      }
    }
    if (failed > 1) failure_->with_note(text(failed - 1, " more of the batch's samples failed"));
    return;
  }
  indices_.clear();
  valid_.clear();
  for (std::size_t row = 0; row < errors_.size(); ++row) {
    const std::int64_t index = shape_.first_sample + static_cast<std::int64_t>(row);
    if (errors_[row]) {
      errors_[row]->at_stream_index(index);
      settle_row(row, *errors_[row], board);
      if (shape_.on_error == OnError::skip) continue;
    } else if (indices_.size() != row) {  // rows before it were skipped: close the gap
      writer_->move_row(*this, row, indices_.size());
    }
    indices_.push_back(index);
    valid_.push_back(!errors_[row]);
  }
}

void BatchJob::settle_row(std::size_t row, const Error& error, StatsBoard& board) {
  const bool skip = shape_.on_error == OnError::skip;
  board.add(skip ? &Stats::samples_skipped : &Stats::samples_filled, 1);
  log_some(LogLevel::warn, skip ? "skipped" : "filled", error.what());
  if (!skip) writer_->fill_row(*this, row);
}

}  // namespace damacy
