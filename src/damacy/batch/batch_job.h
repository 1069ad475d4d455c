// A batch in production: its rows, its slot, the open tasks, and the errors of rows. Many tasks place into it at once;
// the last one to finish settles it. Each element is written by exactly one task.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/batch/slots.h"
#include "damacy/batch/stats.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/core/task.h"
#include "damacy/plan/batch_plan.h"
#include "damacy/plan/destination.h"
#include "damacy/zarr/box_copy.h"

namespace damacy {

class BatchJob;

// Writes single rows of a settled batch; complete on return.
class RowWriter {
 public:
  virtual ~RowWriter() = default;
  virtual void fill_row(BatchJob& job, std::size_t row) = 0;                   // with its array's fill value
  virtual void move_row(BatchJob& job, std::size_t from, std::size_t to) = 0;  // they do not overlap
};

class BatchJob final : public Job, public Destination {
 public:
  struct Shape {
    std::int64_t id;
    std::int64_t first_sample;  // stream index of row 0; the other rows follow one by one
    Dims extents;               // of every row
    Dtype dtype;
    OnError on_error;
  };
  // Takes all memory that settling needs. The rows follow by set_rows(), which cannot fail.
  BatchJob(Shape shape, std::size_t row_count);
  void set_rows(std::vector<PlannedSample>&& rows) noexcept { rows_ = std::move(rows); }

  const Shape& shape() const noexcept { return shape_; }
  std::span<const PlannedSample> rows() const noexcept { return rows_; }
  std::int64_t end_sample() const noexcept { return shape_.first_sample + static_cast<std::int64_t>(rows_.size()); }

  struct Owner {
    // Waits for a free slot; throws Error(shutdown) if the pipeline closes first.
    std::function<std::shared_ptr<SlotLoan>(BatchJob&)> lend;
    // Called once, on the thread of the last task, under no lock.
    std::function<void(BatchJob&)> settled;
  };
  // Before the first task.
  void start(Owner owner, RowWriter& writer, StatsBoard& board);
  // Waits for a slot; from here on the batch is in production.
  std::span<const Event> claim() override;

  void read_begins() noexcept { ++open_reads_; }
  void read_ended() noexcept;
  std::chrono::steady_clock::time_point reads_ended() const noexcept;  // now, while reads are outstanding

  std::span<std::byte> memory() const noexcept override;  // all rows
  std::span<std::byte> row_memory(std::size_t row) const noexcept;
  std::int64_t row_bytes() const noexcept { return row_elements_ * static_cast<std::int64_t>(size_of(shape_.dtype)); }
  const Dims& row_strides() const noexcept { return row_strides_; }  // bytes
  // Where a row lies in memory().
  BoxMemory row_box(std::size_t row) const noexcept {
    return {rows_[row].box, row_strides_, static_cast<std::int64_t>(row) * row_bytes()};
  }
  // Fills a row with its array's fill value.
  BlockCopy fill_of_row(std::size_t row) const;
  void placed(std::uint32_t row, std::int64_t elements) noexcept override {
    placed_[row].fetch_add(elements, std::memory_order_relaxed);
  }
  // If several chunks of a row fail, the error of the first chunk is kept, so that equal input gives equal errors.
  void fail(std::size_t row, const Error& error) noexcept;
  void fail_all(const Error& error) noexcept;
  bool row_failed(std::size_t row) const;

  // After it settled:
  // Of the whole batch, as with on_error=raise.
  const std::optional<Error>& failure() const noexcept { return failure_; }
  std::int64_t delivered_rows() const noexcept { return static_cast<std::int64_t>(indices_.size()); }
  const std::vector<std::int64_t>& sample_indices() const noexcept { return indices_; }
  const std::vector<bool>& valid() const noexcept { return valid_; }
  std::vector<std::shared_ptr<const void>> origins() const;  // of the rows delivered
  const std::shared_ptr<SlotLoan>& loan() const noexcept { return loan_; }
  std::shared_ptr<SlotLoan> take_loan() noexcept { return std::move(loan_); }

 private:
  void settle() noexcept override;
  void settle_rows() noexcept;
  void fail_incomplete_rows();
  void settle_failures();
  void settle_row(std::size_t row);
  void fail_batch();

  Shape shape_;
  std::vector<PlannedSample> rows_;
  std::int64_t row_elements_;
  Dims row_strides_;
  std::shared_ptr<SlotLoan> loan_;
  RowWriter* writer_ = nullptr;
  StatsBoard* board_ = nullptr;
  Owner owner_;
  std::atomic<std::int64_t> open_reads_{0};
  std::atomic<std::int64_t> reads_ended_ns_{0};
  std::vector<std::atomic<std::int64_t>> placed_;  // elements, by row

  mutable Mutex mutex_;
  std::vector<std::optional<Error>> errors_ DAMACY_GUARDED_BY(mutex_);  // by row
  bool any_failed_ DAMACY_GUARDED_BY(mutex_) = false;

  std::optional<Error> failure_;
  std::vector<std::int64_t> indices_;
  std::vector<bool> valid_;
};

}  // namespace damacy
