#include "damacy/fetch/readers.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "damacy/core/checked.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

constexpr std::size_t kCallsOfAWorker = 2;            // to wake a thread takes as long as many an answer
constexpr auto kPoll = std::chrono::milliseconds(5);  // between two calls of while_waiting()
constexpr auto kPatience = std::chrono::seconds(2);   // of a close, with storage that does not answer

// Makes blocking calls one after the other until none is left; other workers take from the same queue.
class CallWorker final : public Request {
 public:
  struct Queue {
    std::shared_ptr<BlockingCalls> calls;
    std::size_t count;
    std::function<void()> on_done;
    Engine& engine;
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> done{0};
    Queue(std::shared_ptr<BlockingCalls> calls_of, std::size_t count_of, std::function<void()> then, Engine& on)
        : calls(std::move(calls_of)), count(count_of), on_done(std::move(then)), engine(on) {}

    void end_call() {
      if (++done == count) on_done();
    }
    void time_out_rest(const Error& why) noexcept {
      for (std::size_t i = next++; i < count; i = next++) {
        calls->time_out(i, why);
        end_call();
      }
    }
  };
  explicit CallWorker(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  Part prepare(std::size_t, std::stop_token stop) override {
    while (!stop.stop_requested() && (now_ = queue_->next++) < queue_->count) {
      calling_ = true;
      queue_->calls->call(now_);
      calling_ = false;
      queue_->end_call();
    }
    if (stop.stop_requested())
      queue_->time_out_rest(Error(Status::shutdown, "the pipeline was closed meanwhile", "closed"));
    return {};
  }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    if (failure != nullptr) queue_->time_out_rest(*failure);
  }
  bool can_be_abandoned() const noexcept override { return true; }
  // The other calls continue on another thread.
  void abandon(const Error& why) noexcept override {
    if (calling_) {
      queue_->calls->time_out(now_, why);
      queue_->end_call();
    }
    if (queue_->next >= queue_->count) return;
    try {
      queue_->engine.submit_urgent(std::make_unique<CallWorker>(queue_));
    } catch (const std::bad_alloc&) {
      queue_->time_out_rest(why);
    }
  }

 private:
  const std::shared_ptr<Queue> queue_;
  std::size_t now_ = 0;
  bool calling_ = false;  // the call now_, which has not ended yet
};

}  // namespace

Readers::Readers(const ThreadCounts& threads, const std::shared_ptr<const Clock>& clock)
    : contexts_(threads.readers),
      at_once_(threads.readers_at_once),
      clock_(clock),
      blocking_(make_thread_engine(threads.blocking, threads.blocking, clock)),
      engine_(make_thread_engine(contexts_.size(), at_once_, clock)) {}

void Readers::run_blocking(std::shared_ptr<BlockingCalls> calls, std::size_t count, std::size_t at_once,
                           std::function<void()> on_done) {
  if (count == 0) return on_done();
  const auto queue = std::make_shared<CallWorker::Queue>(std::move(calls), count, std::move(on_done), *blocking_);
  blocking_->submit_urgent(std::make_unique<CallWorker>(queue));  // does without readers: they may all be busy
  try {
    for (std::size_t i = 1; i < std::min({ceil_div(count, kCallsOfAWorker), at_once, contexts_.size() + 1}); ++i)
      engine_->submit_urgent(std::make_unique<CallWorker>(queue));
  } catch (const std::bad_alloc&) {  // fewer take part
  }
}

bool Readers::run_and_wait(const std::shared_ptr<AwaitedCalls>& calls, std::size_t count, std::size_t at_once,
                           const std::stop_token& stop, const std::function<void()>& while_waiting) {
  run_blocking(calls, count, at_once, [calls] { calls->finish(); });
  if (!while_waiting) return calls->wait(stop);
  while (!calls->wait_for(kPoll)) {
    if (stop.stop_requested()) return false;
    while_waiting();
  }
  return true;
}

void Readers::run_in_background(std::shared_ptr<BlockingCalls> call) {
  {
    const Lock lock(mutex_);
    if (!background_) background_ = make_thread_engine(1, 1, clock_);
  }
  Engine& engine = *background();
  engine.submit(std::make_unique<CallWorker>(std::make_shared<CallWorker::Queue>(std::move(call), 1, [] {}, engine)));
}

Engine* Readers::background() const noexcept {
  const Lock lock(mutex_);
  return background_.get();
}

void Readers::abandon_overdue() noexcept {
  constexpr auto kDeadline = std::chrono::seconds(Limits::storage_operation_s);
  bool stuck = blocking_->abandon_overdue(kDeadline, stuck_);
  if (Engine* const engine = background()) stuck = engine->abandon_overdue(kDeadline, stuck_) || stuck;
  stuck_ = engine_->abandon_overdue(kDeadline, stuck) || stuck;
}

bool Readers::stop_reading(const std::shared_ptr<void>& keep) noexcept {
  patience_ = std::chrono::steady_clock::now() + kPatience;
  return engine_->stop(patience_, keep);
}

bool Readers::stop(const std::shared_ptr<void>& keep) noexcept {
  if (patience_ == std::chrono::steady_clock::time_point{}) stop_reading(keep);
  bool left_behind = engine_->stop(patience_, keep);
  left_behind = blocking_->stop(patience_, keep) || left_behind;
  Engine* const engine = background();
  return (engine != nullptr && engine->stop(patience_, keep)) || left_behind;
}

}  // namespace damacy
