// The implementation of Pipeline: one lock, one condition, a planner thread, and the engine that places batches.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "damacy/batch/batch.h"
#include "damacy/batch/batch_planner.h"
#include "damacy/batch/config.h"
#include "damacy/batch/memory_plan.h"
#include "damacy/batch/sample.h"
#include "damacy/batch/slots.h"
#include "damacy/cache/disk/disk_tier.h"
#include "damacy/cache/shared/shared_cache.h"
#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/fetch/stats_board.h"
#include "damacy/pipeline/admission.h"
#include "damacy/pipeline/attribute_cache.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/explain.h"
#include "damacy/pipeline/held_text.h"
#include "damacy/pipeline/part_geometry.h"
#include "damacy/pipeline/sample_stream.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

class PipelineImpl {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  PipelineImpl(Config config, PipelineEnvironment environment);
  ~PipelineImpl();

  void push(std::shared_ptr<SampleSource> source);
  Batch pop(const Deadline& deadline);
  void await_due(const Deadline& deadline);
  std::optional<Batch> take_due();
  void put_back(std::exception_ptr error);
  void flush(const Deadline& deadline);
  void close() noexcept;
  bool pending();
  Stats stats();
  void stats_reset();
  Explanation explain();
  std::string device();
  std::optional<bool> is_named();

  void check_not_forked() const;  // throws Error(shutdown)
  bool forked() const noexcept { return fork_epoch() != epoch; }

  const Config config;

 private:
  static constexpr auto kPoll = std::chrono::milliseconds(50);  // signals are handled with at most this delay
  // Shared with the callbacks of slots, which may outlive the pipeline.
  struct Wakeup {
    Mutex mutex;
    StoppableCondition changed;      // for callers
    StoppableCondition can_produce;  // for the planner, and for batches that wait for a slot
    void notify() {
      mutex.lock();  // then a thread that is about to wait sees the change
      mutex.unlock();
      changed.notify_all();
      can_produce.notify_all();
    }
  };
  template <class Ready>
  bool wait(Lock& lock, const Deadline& deadline, Ready ready) DAMACY_REQUIRES(wakeup->mutex);
  // Times out overdue storage calls. Releases the lock meanwhile, like all functions that take `lock`.
  void look_after(Lock& lock) noexcept DAMACY_REQUIRES(wakeup->mutex) {
    if (const auto kept = production) {  // close() may drop it meanwhile
      const LockRelease meanwhile(lock, wakeup->mutex);
      kept->readers().abandon_overdue();
    }
  }

  void check_usable() const DAMACY_REQUIRES(wakeup->mutex);  // throws Error(shutdown): forked, or closed
  bool can_refill() const DAMACY_REQUIRES(wakeup->mutex);
  bool is_short_of_samples() const DAMACY_REQUIRES(wakeup->mutex);
  void refill(Lock& lock, const QueuedSource* own) DAMACY_REQUIRES(wakeup->mutex);
  void pull(QueuedSource& source, std::int64_t room) const DAMACY_EXCLUDES(wakeup->mutex);
  // The result of opening each distinct uri of a portion: an array or an exception.
  struct Opened {
    OpenedArray array;
    std::exception_ptr error;
  };
  using OpenedByUri = std::unordered_map<std::string, Opened>;
  OpenedByUri resolve(const QueuedSource& source) DAMACY_EXCLUDES(wakeup->mutex);
  class Opening;
  void refill_from(std::shared_ptr<QueuedSource> source, std::int64_t room, const QueuedSource* own)
      DAMACY_EXCLUDES(wakeup->mutex);
  std::exception_ptr admit_pulled(QueuedSource& source, const OpenedByUri& opened, bool is_own, bool may_wait)
      DAMACY_EXCLUDES(wakeup->mutex);
  Admitted admit_or_lose(QueuedSource& source, const OpenedByUri& opened) DAMACY_REQUIRES(wakeup->mutex);
  void admit_front(QueuedSource& source, const OpenedByUri& opened) DAMACY_REQUIRES(wakeup->mutex);
  void make_slots(const BatchLayout& layout) DAMACY_REQUIRES(wakeup->mutex);
  Machine machine_for_slots() const;
  void adjust_slots(Lock& lock) DAMACY_REQUIRES(wakeup->mutex);
  Slots::Growth add_slot(Lock& lock) DAMACY_REQUIRES(wakeup->mutex);
  Error held_error(const std::vector<std::int64_t>& held) const DAMACY_REQUIRES(wakeup->mutex);
  void refuse_reentry(std::string_view stage) const DAMACY_REQUIRES(wakeup->mutex);
  static Error closed_error();
  void stop_opening() noexcept;

  void bind();
  std::shared_ptr<BatchPlanner> make_production(const MemoryPlan& plan);
  std::unique_ptr<BatchEngine> make_engine(const MemoryPlan& plan, Readers& readers);
  void record_wait(const BatchJob& job, std::chrono::steady_clock::time_point since);
  void plan_batches(std::stop_token stop);
  std::shared_ptr<BatchJob> next_to_plan(const std::stop_token& stop, bool ahead);
  bool can_announce() const DAMACY_REQUIRES(wakeup->mutex);
  void announce_next(Lock& lock) DAMACY_REQUIRES(wakeup->mutex);
  void announce_more();
  std::shared_ptr<SlotLoan> lend(BatchJob& job);
  template <class Ready>
  bool wait_for_slots(Lock& lock, const std::stop_token& stop, Ready ready) DAMACY_REQUIRES(wakeup->mutex);
  void on_settled(BatchJob& job);
  std::vector<Batch::NamedInfo> arrays_of(const BatchJob& job) const;
  Observation observe() const noexcept DAMACY_REQUIRES(wakeup->mutex);
  void free_all(double seconds) noexcept;

  std::uint64_t epoch;
  PipelineEnvironment around;
  std::shared_ptr<Wakeup> wakeup = std::make_shared<Wakeup>();
  StatsBoard board;
  std::shared_ptr<DiskTier> disk_tier;        // null: none
  std::shared_ptr<SharedCache> shared_cache;  // null: none
  std::shared_ptr<Catalog> catalog;
  std::shared_ptr<AttributeCache> attributes;
  std::shared_ptr<Device> engine_device;  // its streams order the work; null: worker engine
  std::shared_ptr<Device> batch_device;   // null: batches live in host memory
  std::shared_ptr<Slots> slots;
  std::shared_ptr<BatchPlanner> production;  // the readers and the engine

  // Under wakeup->mutex. What closing frees (catalog, devices, slots, production) is null from then on, and is
  // used under the lock, or by who keeps a reference; the planner has ended before.
  SampleStream stream DAMACY_GUARDED_BY(wakeup->mutex);
  KeepLimit keep DAMACY_GUARDED_BY(wakeup->mutex);  // since the slots were made
  bool logged_added DAMACY_GUARDED_BY(wakeup->mutex) = false;
  bool logged_many DAMACY_GUARDED_BY(wakeup->mutex) = false;
  bool logged_refusal DAMACY_GUARDED_BY(wakeup->mutex) = false;
  bool closed DAMACY_GUARDED_BY(wakeup->mutex) = false;
  std::optional<Observation> last_seen DAMACY_GUARDED_BY(wakeup->mutex);  // of a closed pipeline
  bool refilling DAMACY_GUARDED_BY(wakeup->mutex) = false;
  bool accepted_since_flush DAMACY_GUARDED_BY(wakeup->mutex) = false;
  bool opened_any DAMACY_GUARDED_BY(wakeup->mutex) = false;  // the arrays of a sample
  std::thread::id refiller DAMACY_GUARDED_BY(wakeup->mutex);
  std::weak_ptr<Opening> under_way DAMACY_GUARDED_BY(wakeup->mutex);  // of the last samples that were taken
  std::unordered_set<std::string> resolved
      DAMACY_GUARDED_BY(wakeup->mutex);  // uris opened before: likely in the catalog
  std::stop_source stopping;
  Thread planner;  // last: it uses all of the above
};

// True when `ready`, false at the deadline. Checks for signals and overdue storage calls periodically, not at each
// notification: most of these are for other threads.
template <class Ready>
bool PipelineImpl::wait(Lock& lock, const Deadline& deadline, Ready ready) {
  const auto end = deadline.value_or(std::chrono::steady_clock::time_point::max());
  for (;;) {
    if (ready()) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) {
      look_after(lock);
      return ready();
    }
    const auto until = std::min(end, now + kPoll);
    while (wakeup->changed.wait_until(lock, until) == std::cv_status::no_timeout)
      if (ready()) return true;
    if (ready()) return true;
    look_after(lock);
    if (!around.while_waiting) continue;
    const LockRelease meanwhile(lock, wakeup->mutex);
    around.while_waiting();
    check_not_forked();  // a handler forked, and this is the child
  }
}

}  // namespace damacy
