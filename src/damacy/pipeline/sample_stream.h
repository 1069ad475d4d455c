// The state of the stream in order: sources, accepted samples, batches formed from them, and errors that wait for their
// place. A plain state machine: the owner holds the lock; nothing here waits, reads or allocates slots. If a function
// throws (out of memory), it has changed nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "damacy/batch/batch_job.h"
#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"

namespace damacy {

// A pushed source and what was already taken from it.
struct QueuedSource {
  std::shared_ptr<SampleSource> samples;
  std::string directory;         // at push the working directory: relative paths are below it
  std::deque<Sample> pulled;     // not yet admitted
  std::int64_t admitted = 0;     // position of pulled.front()
  std::int64_t after_flush = 0;  // taken since the flush that limits it
  bool flushed = false;
  bool ends_run = false;  // the run ends behind its last sample
  bool exhausted = false;
  std::exception_ptr failure;  // the exception of next(), after `pulled`, or the error of a refused sample
  bool refused = false;
  std::exception_ptr first_lost;  // of the first sample whose arrays could not be opened
};

class SampleStream {
 public:
  explicit SampleStream(const Config& config);

  // Sources.
  void add_source(std::shared_ptr<QueuedSource> source) { sources_.push_back(std::move(source)); }
  const std::shared_ptr<QueuedSource>& first_source() const { return sources_.front(); }
  bool has_sources() const noexcept { return !sources_.empty(); }
  // `error`, if any, waits for its place after the samples of the source.
  void end_first_source(std::exception_ptr error);
  std::list<std::shared_ptr<QueuedSource>> take_sources() noexcept { return std::exchange(sources_, {}); }
  std::int64_t room() const noexcept { return queue_depth_ - queued_; }
  // More samples wait, unless Config says how many: for a device, and from the first sample of a remote store on.
  void look_further_ahead() noexcept;
  std::int64_t lookahead_batches() const noexcept { return lookahead_batches_; }
  bool is_half_empty() const noexcept { return queued_ < (queue_depth_ + 1) / 2; }

  // Samples. The first one accepted fixes the layout of all; null before.
  const std::shared_ptr<const BatchLayout>& layout() const noexcept { return layout_; }
  void accept(PlannedSample sample, const std::shared_ptr<const BatchLayout>& layout, bool ends_batch);
  struct Deferred {
    std::int64_t place;  // samples accepted before it
    std::exception_ptr error;
  };
  std::list<Deferred> take_deferred() noexcept { return std::exchange(deferred_, {}); }
  // Ends the run behind what is queued now.
  void flush();
  // Of a pipeline that closes: samples that form no batch, and a batch at a time, null behind the last. They are to be
  // destroyed without the lock.
  std::vector<PlannedSample> take_samples() noexcept { return std::exchange(run_, {}); }
  std::shared_ptr<BatchJob> take_batch() noexcept;
  std::shared_ptr<const BatchLayout> take_layout() noexcept { return std::exchange(layout_, nullptr); }

  // Batches, oldest first.
  struct Item {
    std::shared_ptr<BatchJob> job;
    bool started = false;  // in production: it has a slot
    bool settled = false;
  };
  bool has_unplanned() const noexcept { return planned_ < batches_.size(); }
  bool has_unstarted() const noexcept;
  bool in_production() const noexcept;
  std::shared_ptr<BatchJob> plan_next() noexcept;
  // From the next one to plan on: each once, in order.
  bool has_unannounced() const noexcept { return std::max(announced_, planned_) < batches_.size(); }
  std::shared_ptr<BatchJob> announce_next() noexcept;
  void mark_started(const BatchJob& job);
  void mark_settled(const BatchJob& job);
  const Item* front() const noexcept { return batches_.empty() ? nullptr : &batches_.front(); }
  void drop_front();
  // An error whose place comes before the front batch's end; with no batch, any.
  bool has_due_error() const noexcept;
  bool is_due() const noexcept;  // an error, or the front batch
  std::exception_ptr take_due_error();
  void put_back_error(std::exception_ptr error) { deferred_.push_front({0, std::move(error)}); }
  std::int64_t unbatched() const noexcept { return static_cast<std::int64_t>(run_.size()); }
  std::int64_t truncated() const noexcept { return truncated_; }
  void reset_truncated() noexcept { truncated_ = 0; }

 private:
  void form_batch();
  void leave_queue(const Item& item) noexcept;

  const Config& config_;
  std::int64_t lookahead_batches_;
  std::int64_t queue_depth_;  // samples
  std::list<std::shared_ptr<QueuedSource>> sources_;
  std::shared_ptr<const BatchLayout> layout_;
  std::vector<PlannedSample> run_;  // of the batch being filled
  std::int64_t accepted_ = 0;       // samples, ever
  std::int64_t queued_ = 0;         // accepted and not in production
  std::int64_t next_batch_ = 0;
  std::int64_t truncated_ = 0;
  std::deque<Item> batches_;
  std::size_t planned_ = 0;    // batches_[0, planned_) are planned, in production or done
  std::size_t announced_ = 0;  // batches_[0, announced_) are announced, or need not be

  std::list<Deferred> deferred_;
};

}  // namespace damacy
