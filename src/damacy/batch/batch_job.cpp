#include "damacy/batch/batch_job.h"

#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"

namespace damacy {

namespace {

// Errors without a chunk come after errors with one.
bool is_of_earlier_chunk(const Error& one, const Error& other) {
  const auto& chunk = one.where().chunk;
  return chunk && (!other.where().chunk || *chunk < *other.where().chunk);
}

}  // namespace

BatchJob::BatchJob(Shape shape, std::size_t row_count)
    : shape_(std::move(shape)),
      row_elements_(*product(shape_.extents.span())),
      row_strides_(row_major_strides(shape_.extents)),
      placed_(row_count),
      errors_(row_count),
      indices_(row_count),
      valid_(row_count, true) {
  for (auto& stride : row_strides_) stride *= static_cast<std::int64_t>(size_of(shape_.dtype));
  for (std::size_t row = 0; row < row_count; ++row)
    indices_[row] = shape_.first_sample + static_cast<std::int64_t>(row);
}

void BatchJob::start(Owner owner, RowWriter& writer, StatsBoard& board) {
  writer_ = &writer;
  board_ = &board;
  owner_ = std::move(owner);
}

std::span<const Event> BatchJob::claim() {
  if (!loan_) loan_ = owner_.lend(*this);
  return loan_->ready();
}

void BatchJob::settle() noexcept {
  settle_rows();
  const Owner owner = std::move(owner_);
  owner.settled(*this);
}

void BatchJob::read_ended() noexcept {
  if (open_reads_.fetch_sub(1) == 1) reads_ended_ns_ = std::chrono::steady_clock::now().time_since_epoch().count();
}

std::chrono::steady_clock::time_point BatchJob::reads_ended() const noexcept {
  if (open_reads_ > 0) return std::chrono::steady_clock::now();
  return std::chrono::steady_clock::time_point(std::chrono::steady_clock::duration(reads_ended_ns_.load()));
}

std::span<std::byte> BatchJob::memory() const noexcept {
  return loan_->memory().first(static_cast<std::size_t>(row_bytes()) * rows_.size());
}

BlockCopy BatchJob::fill_of_row(std::size_t row) const {
  return fill_of_box(rows_[row].box, row_box(row), {rows_[row].array->dtype(), shape_.dtype, false});
}

std::span<std::byte> BatchJob::row_memory(std::size_t row) const noexcept {
  const auto bytes = static_cast<std::size_t>(row_bytes());
  return loan_->memory().subspan(row * bytes, bytes);
}

void BatchJob::fail(std::size_t row, const Error& error) noexcept {
  const Lock lock(mutex_);
  any_failed_ = true;
  if (!errors_[row] || is_of_earlier_chunk(error, *errors_[row])) errors_[row] = error;
}

void BatchJob::fail_all(const Error& error) noexcept {
  for (std::size_t row = 0; row < placed_.size(); ++row) fail(row, error);
}

bool BatchJob::row_failed(std::size_t row) const {
  const Lock lock(mutex_);
  return errors_[row].has_value();
}

std::vector<std::shared_ptr<const void>> BatchJob::origins() const {
  std::vector<std::shared_ptr<const void>> origins;
  origins.reserve(indices_.size());
  for (const std::int64_t index : indices_)
    origins.push_back(rows_[static_cast<std::size_t>(index - shape_.first_sample)].origin);
  return origins;
}

// After the last task: nothing else touches the errors, here and below. A batch that cannot be mended is lost as a
// whole.
void BatchJob::settle_rows() noexcept {
  const auto lost = failure_of([&]() DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    fail_incomplete_rows();
    if (any_failed_) settle_failures();
  });
  if (!lost) return;
  indices_.resize(placed_.size());  // its first size: takes no memory
  for (std::size_t row = 0; row < indices_.size(); ++row)
    indices_[row] = shape_.first_sample + static_cast<std::int64_t>(row);
  failure_ = extended(*lost, [&](Error& error) { error.at_batch(shape_.id, indices_); });
}

// A row with an element that was not written in this use of the slot is a failure, whatever the reason.
void BatchJob::fail_incomplete_rows() {
  for (std::size_t row = 0; row < rows_.size(); ++row)
    if (placed_[row] != row_elements_ && !row_failed(row))
      fail(row, Error(Status::io,
                      formatted("internal: {} of {} elements were placed", placed_[row].load(), row_elements_), "io")
                    .at_uri(rows_[row].array->uri()));
}

void BatchJob::settle_failures() DAMACY_NO_THREAD_SAFETY_ANALYSIS {
  if (shape_.on_error == OnError::raise || (shape_.on_error == OnError::fill && !loan_)) return fail_batch();
  std::size_t kept = 0;
  for (std::size_t row = 0; row < errors_.size(); ++row) {
    if (errors_[row]) {
      settle_row(row);
      if (shape_.on_error == OnError::skip) continue;
    } else if (kept != row) {  // rows before it were skipped: close the gap
      writer_->move_row(*this, row, kept);
    }
    indices_[kept] = shape_.first_sample + static_cast<std::int64_t>(row);
    valid_[kept++] = !errors_[row];
  }
  indices_.resize(kept);
  valid_.resize(kept);
}

void BatchJob::fail_batch() DAMACY_NO_THREAD_SAFETY_ANALYSIS {
  std::int64_t failed = 0;
  std::optional<Error> first;
  for (std::size_t row = 0; row < errors_.size(); ++row) {
    if (!errors_[row]) continue;
    if (failed++ > 0) continue;
    first = *errors_[row];
    first->at_stream_index(indices_[row]).at_batch(shape_.id, indices_);
  }
  if (failed > 1) first->with_note(formatted("{} more of the batch's samples failed", failed - 1));
  failure_ = first;
}

void BatchJob::settle_row(std::size_t row) DAMACY_NO_THREAD_SAFETY_ANALYSIS {
  const bool skip = shape_.on_error == OnError::skip;
  Error error = *errors_[row];
  error.at_stream_index(shape_.first_sample + static_cast<std::int64_t>(row));
  if (!skip) writer_->fill_row(*this, row);
  if (error.status() == Status::shutdown) return;  // of a closed pipeline: the batch is not delivered
  log_some(LogLevel::warn, skip ? "skipped" : "filled", error.what());
  board_->add(skip ? &Stats::samples_skipped : &Stats::samples_filled, 1);
}

}  // namespace damacy
