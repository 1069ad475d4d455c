// The threads that read, with what each keeps between chunks, and those that ask storage for others. Shared by both
// engines. Knows requests; not batches.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/codec/chain.h"
#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/store/engine.h"

namespace damacy {

// Questions to storage that somebody waits for, answered side by side. One of them is either answered or given up.
class StorageWork {
 public:
  virtual ~StorageWork() = default;
  // Keeps the answer. Throws nothing but Abandoned.
  virtual void ask(std::size_t question) = 0;
  virtual void give_up(std::size_t question, const Error& why) noexcept = 0;
};

// Readers that leave cores to the threads that feed a device, and to its consumer.
constexpr std::int64_t readers_beside_device(std::int64_t cores) {
  return std::max<std::int64_t>(1, cores - std::max<std::int64_t>(1, cores / 3));
}

class Readers {
 public:
  Readers(const Config& config, const std::shared_ptr<const Clock>& clock);

  void submit(std::unique_ptr<Request> request) { engine_->submit(std::move(request)); }
  // Asks questions 0 to `count`, on at most `lanes` threads; calls `all_told` behind the last, on one of them or on
  // this.
  void ask(std::shared_ptr<StorageWork> work, std::size_t count, std::size_t lanes, std::function<void()> all_told);
  void abandon_overdue() noexcept;
  // Ends what runs, drops what waits (its tasks fail), joins. Idempotent. True: threads that storage holds were left
  // behind with `keep`. Questions can still be asked between the two.
  bool stop_reading(const std::shared_ptr<void>& keep) noexcept;
  bool stop(const std::shared_ptr<void>& keep) noexcept;

  // Chunks that are read at a time, where nothing else is done with them: for a device.
  std::size_t at_once() const noexcept { return at_once_; }
  std::vector<DecodeContext>& contexts() noexcept { return contexts_; }

 private:
  std::vector<DecodeContext> contexts_;               // by thread
  std::chrono::steady_clock::time_point patience_{};  // of a stop
  std::atomic<bool> stuck_{false};                    // some thread is
  const std::size_t at_once_;
  std::unique_ptr<Engine> askers_;  // for threads that must not get stuck: the caller's, the planner's
  std::unique_ptr<Engine> engine_;  // last: its threads use the contexts
};

}  // namespace damacy
