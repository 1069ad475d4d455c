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

#include "damacy/batch/batch_layout.h"
#include "damacy/batch/config.h"
#include "damacy/batch/slots.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/core/task.h"
#include "damacy/fetch/stats_board.h"
#include "damacy/plan/batch_plan.h"
#include "damacy/plan/destination.h"

namespace damacy {

class BatchJob;

// Writes single rows of a settled batch; complete on return.
class RowWriter {
 public:
  virtual ~RowWriter() = default;
  virtual void fill_part(BatchJob& job, std::size_t part) = 0;  // with its array's fill value
  // Bytes of a slot; they do not overlap.
  virtual void move_row(std::span<std::byte> to, std::span<const std::byte> from) = 0;
};

// A sample that was admitted: its parts, in the order of the layout.
struct PlannedSample {
  std::vector<PlannedPart> parts;
  std::shared_ptr<const void> origin = nullptr;  // the caller's, for the batch
  std::optional<Error> failure = {};             // its row fails, and its parts are lost
};

class BatchJob final : public Job, public Destination {
 public:
  struct Shape {
    std::int64_t id;
    std::int64_t first_sample;  // stream index of row 0; the other rows follow one by one
    std::shared_ptr<const BatchLayout> layout;
    OnError on_error;
  };
  // Takes all memory that settling needs. The rows follow by set_rows(), which cannot fail.
  BatchJob(Shape shape, std::size_t row_count);
  void set_rows(std::vector<PlannedSample>&& rows) noexcept;

  const Shape& shape() const noexcept { return shape_; }
  const BatchLayout& layout() const noexcept { return *shape_.layout; }
  std::size_t row_count() const noexcept { return origins_.size(); }
  std::span<const PlannedPart> parts() const noexcept { return parts_; }  // row by row
  std::int64_t end_sample() const noexcept { return shape_.first_sample + static_cast<std::int64_t>(row_count()); }

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

  std::span<std::byte> memory() const noexcept override;  // all arrays
  std::span<std::byte> row_memory(std::size_t row, std::size_t array = 0) const noexcept;
  Dtype dtype_of(std::size_t part) const noexcept { return layout().array_of(part).dtype; }
  // Where a part lies in memory().
  BoxMemory box_of(std::size_t part) const noexcept {
    return {parts_[part].box, layout().part(part).strides, layout().begin_of(part)};
  }
  // The copies that fill a part with its array's fill value, finished.
  void for_fill(std::size_t part, const std::function<void(const BlockCopy&)>& visit) const;
  void placed(std::uint32_t part, std::int64_t elements) noexcept override {
    placed_[part].fetch_add(elements, std::memory_order_relaxed);
  }
  // If several chunks of a part fail, the error of the first chunk is kept, so that equal input gives equal errors.
  // Does nothing once the last task has ended.
  void fail(std::size_t part, const Error& error) noexcept;
  void fail_all(const Error& error) noexcept;

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
  using Errors = std::vector<std::optional<Error>>;  // by part
  Errors take_errors() noexcept;
  void fail_incomplete_parts(Errors& errors) const;
  void count_padding();
  void settle_failures(Errors& errors);
  void move_row(std::size_t from, std::size_t to);
  const Error* error_of(std::size_t row, const Errors& errors) const;
  void settle_row(std::size_t row, const Errors& errors);
  void fail_batch(const Errors& errors);

  Shape shape_;
  std::vector<PlannedPart> parts_;
  std::vector<std::shared_ptr<const void>> origins_;  // by row
  std::shared_ptr<SlotLoan> loan_;
  RowWriter* writer_ = nullptr;
  StatsBoard* board_ = nullptr;
  Owner owner_;
  std::atomic<std::int64_t> open_reads_{0};
  std::atomic<std::int64_t> reads_ended_ns_{0};
  std::vector<std::atomic<std::int64_t>> placed_;  // elements, by part

  mutable Mutex mutex_;
  Errors errors_ DAMACY_GUARDED_BY(mutex_);  // until the last task ends

  std::optional<Error> failure_;
  std::vector<std::int64_t> indices_;
  std::vector<bool> valid_;
};

}  // namespace damacy
