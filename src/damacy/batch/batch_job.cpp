#include "damacy/batch/batch_job.h"

#include <algorithm>
#include <utility>

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
      placed_(row_count * layout().parts().size()),
      errors_(placed_.size()),
      indices_(row_count),
      valid_(row_count, true) {
  parts_.reserve(placed_.size());
  origins_.reserve(row_count);
  for (std::size_t row = 0; row < row_count; ++row)
    indices_[row] = shape_.first_sample + static_cast<std::int64_t>(row);
}

void BatchJob::set_rows(std::vector<PlannedSample>&& rows) noexcept {
  for (PlannedSample& row : rows) {
    if (row.failure)
      for (std::size_t i = 0; i < row.parts.size(); ++i) fail(parts_.size() + i, *row.failure);
    for (PlannedPart& part : row.parts) parts_.push_back(std::move(part));
    origins_.push_back(std::move(row.origin));
  }
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
  return loan_->memory().first(static_cast<std::size_t>(layout().bytes_of(row_count())));
}

void BatchJob::for_fill(std::size_t part, const std::function<void(const BlockCopy&)>& visit) const {
  const PlannedPart& planned = parts_[part];
  if (planned.placing != nullptr) return planned.placing->for_fill(layout().begin_of(part), visit);
  visit(fill_of_box(planned.box, box_of(part), {planned.array->dtype(), dtype_of(part)}));
}

std::span<std::byte> BatchJob::row_memory(std::size_t row, std::size_t array) const noexcept {
  const BatchLayout::Rows& rows = layout().arrays()[array];
  return loan_->memory().subspan(static_cast<std::size_t>(rows.begin + static_cast<std::int64_t>(row) * rows.row_bytes),
                                 static_cast<std::size_t>(rows.row_bytes));
}

void BatchJob::fail(std::size_t part, const Error& error) noexcept {
  const Lock lock(mutex_);
  if (part >= errors_.size()) return;  // the batch has settled
  if (!errors_[part] || is_of_earlier_chunk(error, *errors_[part])) errors_[part] = error;
}

void BatchJob::fail_all(const Error& error) noexcept {
  for (std::size_t part = 0; part < placed_.size(); ++part) fail(part, error);
}

// The error of the row's first part that has one; null if it has none.
const Error* BatchJob::error_of(std::size_t row, const Errors& errors) const {
  const std::size_t parts = layout().parts().size();
  for (std::size_t part = row * parts; part < (row + 1) * parts; ++part)
    if (errors[part]) return &*errors[part];
  return nullptr;
}

std::vector<std::shared_ptr<const void>> BatchJob::origins() const {
  std::vector<std::shared_ptr<const void>> origins;
  origins.reserve(indices_.size());
  for (const std::int64_t index : indices_)
    origins.push_back(origins_[static_cast<std::size_t>(index - shape_.first_sample)]);
  return origins;
}

// After the last task no part fails any more, so the errors are taken, and no lock is held while rows are written and
// messages are logged. A batch that cannot be mended is lost as a whole.
void BatchJob::settle_rows() noexcept {
  Errors errors = take_errors();
  const auto lost = failure_of([&] {
    fail_incomplete_parts(errors);
    count_padding();
    if (std::ranges::any_of(errors, [](const auto& error) { return error.has_value(); })) settle_failures(errors);
  });
  if (!lost) return;
  indices_.resize(row_count());  // its first size: takes no memory
  for (std::size_t row = 0; row < indices_.size(); ++row)
    indices_[row] = shape_.first_sample + static_cast<std::int64_t>(row);
  failure_ = extended(*lost, [&](Error& error) { error.at_batch(shape_.id, indices_); });
}

BatchJob::Errors BatchJob::take_errors() noexcept {
  const Lock lock(mutex_);
  return std::move(errors_);
}

// A row with an element that was not written in this use of the slot is a failure, whatever the reason.
void BatchJob::fail_incomplete_parts(Errors& errors) const {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::int64_t wanted = layout().part(part).elements;
    if (placed_[part] != wanted && !errors[part])
      errors[part] =
          Error(Status::io, formatted("internal: {} of {} elements were placed", placed_[part].load(), wanted), "io")
              .at_uri(parts_[part].array->uri());
  }
}

void BatchJob::count_padding() {
  std::int64_t bytes = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (const auto& placing = parts_[part].placing)
      bytes += placing->padded_elements() * static_cast<std::int64_t>(size_of(dtype_of(part)));
  if (bytes > 0) board_->add(&Stats::bytes_padded, bytes);
}

void BatchJob::settle_failures(Errors& errors) {
  for (std::size_t part = 0; part < errors.size(); ++part)
    if (errors[part]) errors[part]->at_array(layout().array_of(part).name);
  if (shape_.on_error == OnError::raise || (shape_.on_error == OnError::fill && !loan_)) return fail_batch(errors);
  std::size_t kept = 0;
  for (std::size_t row = 0; row < row_count(); ++row) {
    const bool failed = error_of(row, errors) != nullptr;
    if (failed) {
      settle_row(row, errors);
      if (shape_.on_error == OnError::skip) continue;
    } else if (kept != row) {  // rows before it were skipped: close the gap
      move_row(row, kept);
    }
    indices_[kept] = shape_.first_sample + static_cast<std::int64_t>(row);
    valid_[kept++] = !failed;
  }
  indices_.resize(kept);
  valid_.resize(kept);
}

void BatchJob::move_row(std::size_t from, std::size_t to) {
  for (std::size_t array = 0; array < layout().arrays().size(); ++array)
    writer_->move_row(row_memory(to, array), row_memory(from, array));
}

void BatchJob::fail_batch(const Errors& errors) {
  std::int64_t failed = 0;
  std::optional<Error> first;
  for (std::size_t row = 0; row < row_count(); ++row) {
    const Error* const error = error_of(row, errors);
    if (error == nullptr || failed++ > 0) continue;
    first = *error;
    first->at_stream_index(indices_[row]).at_batch(shape_.id, indices_);
  }
  if (failed > 1) first->with_note(formatted("{} more of the batch's samples failed", failed - 1));
  failure_ = first;
}

void BatchJob::settle_row(std::size_t row, const Errors& errors) {
  const bool skip = shape_.on_error == OnError::skip;
  Error error = *error_of(row, errors);
  error.at_stream_index(shape_.first_sample + static_cast<std::int64_t>(row));
  const std::size_t parts = layout().parts().size();
  for (std::size_t part = row * parts; !skip && part < (row + 1) * parts; ++part) writer_->fill_part(*this, part);
  if (error.status() == Status::shutdown) return;  // of a closed pipeline: the batch is not delivered
  log_some(LogLevel::warn, skip ? "skipped" : "filled", error.what());
  board_->add(skip ? &Stats::samples_skipped : &Stats::samples_filled, 1);
}

}  // namespace damacy
