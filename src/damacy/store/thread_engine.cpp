// Threads that take requests from one queue, in order, and run each from beginning to end. A thread stuck in storage is
// replaced. Knows no files and no policy.
#include <algorithm>
#include <deque>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

#include "damacy/core/address_space.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/device/trace.h"
#include "damacy/store/engine.h"

namespace damacy {
namespace {

constexpr std::size_t kAbandonedAtMost = 256;  // threads of one engine that storage may hold, and be replaced
constexpr auto kLook = std::chrono::milliseconds(20);

void run(Request& request, std::size_t thread, std::stop_token stop) noexcept {
  const StorageWatch::Scope scope(request.can_be_abandoned() ? &request : nullptr);
  try {
    Part part;
    const auto failure = failure_of([&] {
      part = request.prepare(thread, stop);
      if (part.dst.empty()) return;
      const TraceRange stage("damacy read");
      if (part.pieces.empty())
        part.object->read_exact(part.offset, part.dst);
      else
        part.object->read_pieces(part.offset, part.dst, part.pieces);
    });
    request.complete(thread, part, failure ? &*failure : nullptr);
  } catch (const Abandoned&) {
  }
}

// State shared by the engine and its threads. Lives as long as the last of them.
struct Shared {
  explicit Shared(std::size_t readers_of) : readers(readers_of) {}

  struct Worker {
    Worker(std::shared_ptr<const Clock> clock, std::size_t number_of) : watch(std::move(clock)), number(number_of) {}
    StorageWatch watch;
    const std::size_t number;
    bool reading = false;  // a request that only reads
    bool left = false;     // its thread will touch nothing more, or was abandoned
    Thread thread;         // the engine's
  };

  bool can_take() const DAMACY_REQUIRES(mutex) {
    if (!urgent.empty()) return true;
    return !waiting.empty() && (reading < readers || stopping || !waiting.front()->only_reads());
  }

  std::unique_ptr<Request> take() DAMACY_REQUIRES(mutex) {
    if (!can_take()) return nullptr;
    auto& from = urgent.empty() ? waiting : urgent;
    auto request = std::move(from.front());
    from.pop_front();
    return request;
  }

  // Empty: the thread ends.
  std::unique_ptr<Request> next(Worker& worker) {
    if (worker.watch.abandoned()) return nullptr;
    Lock lock(mutex);
    if (std::exchange(worker.reading, false)) --reading;
    while (!stopping) {
      if (auto request = take()) {
        worker.reading = request->only_reads();
        if (worker.reading) ++reading;
        if (sleeping > 0 && can_take()) changed.notify_one();
        return request;
      }
      ++sleeping;
      changed.wait(lock);
      --sleeping;
    }
    worker.left = true;
    ended.notify_all();
    return nullptr;
  }

  static void serve(const std::shared_ptr<Shared>& shared, const std::shared_ptr<Worker>& worker) {
    worker->watch.attach_thread();
    const std::stop_token token = shared->stop.get_token();
    while (auto request = shared->next(*worker)) run(*request, worker->number, token);
    if (worker->watch.abandoned()) shared->come_back(*worker);
  }

  // An abandoned thread whose storage call has returned.
  void come_back(const Worker& worker) noexcept {
    std::shared_ptr<void> last;  // let go without the lock
    Lock lock(mutex);
    ended.wait(lock, [&] { return worker.left; });
    if (--abandoned == 0) last = std::move(keep);
  }

  const std::size_t readers;
  Mutex mutex;
  Condition changed;
  Condition ended;
  std::deque<std::unique_ptr<Request>> urgent DAMACY_GUARDED_BY(mutex);  // submission order among themselves
  std::deque<std::unique_ptr<Request>> waiting DAMACY_GUARDED_BY(mutex);
  std::size_t sleeping DAMACY_GUARDED_BY(mutex) = 0;
  std::size_t reading DAMACY_GUARDED_BY(mutex) = 0;    // requests under way that only read
  std::size_t abandoned DAMACY_GUARDED_BY(mutex) = 0;  // threads that storage holds
  bool stopping DAMACY_GUARDED_BY(mutex) = false;
  const Error* refusal DAMACY_GUARDED_BY(mutex) = nullptr;  // why nothing is taken any more
  std::shared_ptr<void> keep DAMACY_GUARDED_BY(mutex);
  std::stop_source stop;
};

class ThreadEngine final : public Engine {
 public:
  using Worker = Shared::Worker;

  ThreadEngine(std::size_t threads, std::size_t readers, std::shared_ptr<const Clock> clock)
      : count_(std::max<std::size_t>(threads, 1)),
        clock_(std::move(clock)),
        shared_(std::make_shared<Shared>(std::max<std::size_t>(readers, 1))) {
    workers_.reserve(count_);
    try {
      for (std::size_t i = 0; i < count_; ++i) workers_.push_back(start(i));
    } catch (const std::system_error& error) {
      const std::size_t started = workers_.size();
      end();
      throw Error(Status::oom,
                  formatted("cannot start reader thread {} of {}: {}{}", started + 1, count_, error.what(),
                            address_space_note()),
                  "memory")
          .with_errno(error.code().value());
    } catch (...) {
      end();
      throw;
    }
  }

  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  ~ThreadEngine() override {
    end();
    refuse(shutdown_);
  }

  void submit(std::unique_ptr<Request> request) override { add(&Shared::waiting, std::move(request)); }
  void submit_urgent(std::unique_ptr<Request> request) override { add(&Shared::urgent, std::move(request)); }
  std::size_t threads() const noexcept override { return count_; }

  bool abandon_overdue(Clock::Time age, bool stuck) noexcept override {
    const Lock lock(workers_mutex_);
    for (auto& worker : workers_) {
      if (worker->left || !worker->watch.abandon(age, stuck || any_abandoned(), {})) continue;
      log_some(LogLevel::warn, "hung", "a read that storage did not answer was given up, with its buffer");
      leave(*worker);
      replace(worker);
    }
    return any_abandoned();
  }

  bool stop(std::chrono::steady_clock::time_point patience, std::shared_ptr<void> keep) noexcept override {
    const Lock workers_lock(workers_mutex_);
    request_stop();
    for (;;) {
      Lock lock(shared_->mutex);
      const auto all_left = [&]() DAMACY_REQUIRES(workers_mutex_) {
        return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->left; });
      };
      const bool waited = std::chrono::steady_clock::now() >= patience;
      if (waited ? shared_->ended.wait_for(lock, kLook, all_left) : shared_->ended.wait_until(lock, patience, all_left))
        break;
      lock.unlock();
      for (const auto& worker : workers_)
        if (!worker->left && worker->watch.abandon(Clock::Time{0}, true, ": the pipeline was closed")) leave(*worker);
    }
    end();
    refuse(shutdown_);
    const Lock lock(shared_->mutex);
    if (shared_->abandoned > 0) shared_->keep = std::move(keep);
    return shared_->abandoned > 0;
  }

 private:
  std::shared_ptr<Worker> start(std::size_t number) {
    auto worker = std::make_shared<Worker>(clock_, number);
    worker->thread = Thread("damacy-read", [shared = shared_, worker = worker] { Shared::serve(shared, worker); });
    return worker;
  }

  void add(std::deque<std::unique_ptr<Request>> Shared::* queue, std::unique_ptr<Request> request) {
    bool wake = false;
    const Error* refusal = nullptr;
    try {
      const Lock lock(shared_->mutex);
      refusal = shared_->refusal;
      if (refusal == nullptr) {
        (shared_.get()->*queue).push_back(std::move(request));
        wake = shared_->sleeping > 0 && shared_->can_take();
      }
    } catch (const std::bad_alloc&) {  // push_back then moved nothing
      const Error failure = current_error();
      return request->complete(0, Part{}, &failure);
    }
    // NOLINTNEXTLINE(bugprone-use-after-move): moved only without a refusal
    if (refusal != nullptr) return request->complete(0, Part{}, refusal);
    if (wake) shared_->changed.notify_one();
  }

  bool any_abandoned() const {
    const Lock lock(shared_->mutex);
    return shared_->abandoned > 0;
  }

  // Its work was abandoned; the thread is detached now.
  void leave(Worker& worker) noexcept {
    worker.thread.leave_alone();
    const Lock lock(shared_->mutex);
    worker.left = true;
    if (std::exchange(worker.reading, false)) --shared_->reading;
    ++shared_->abandoned;
    shared_->changed.notify_one();
    shared_->ended.notify_all();
  }

  // Without a thread no request can run: waiting requests fail.
  void replace(std::shared_ptr<Worker>& worker) noexcept DAMACY_REQUIRES(workers_mutex_) {
    std::size_t held = 0;
    {
      const Lock lock(shared_->mutex);
      held = shared_->abandoned;
    }
    try {
      if (held < kAbandonedAtMost) {
        worker = start(worker->number);
        return;
      }
    } catch (...) {
      log_current_error(LogLevel::warn);
    }
    if (!std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->left; })) return;
    refuse(unanswered_);
  }

  void request_stop() noexcept {
    shared_->stop.request_stop();
    {
      const Lock lock(shared_->mutex);
      shared_->stopping = true;
    }
    shared_->changed.notify_all();
  }

  void end() noexcept DAMACY_REQUIRES(workers_mutex_) {
    request_stop();
    for (const auto& worker : workers_) worker->thread.join();
    workers_.clear();
  }

  // Waiting and later requests fail. complete() may submit more.
  void refuse(const Error& why) noexcept {
    {
      const Lock lock(shared_->mutex);
      shared_->refusal = &why;
    }
    for (;;) {
      std::unique_ptr<Request> request;
      {
        const Lock lock(shared_->mutex);
        request = shared_->take();
      }
      if (!request) return;
      request->complete(0, Part{}, &why);
    }
  }

  const std::size_t count_;
  const std::shared_ptr<const Clock> clock_;
  const Error shutdown_{Status::shutdown, "the engine was stopped before this read began", "closed"};
  const Error unanswered_{Status::io, "every thread waits for an answer from storage", "deadline"};
  const std::shared_ptr<Shared> shared_;
  Mutex workers_mutex_;
  std::vector<std::shared_ptr<Worker>> workers_ DAMACY_GUARDED_BY(workers_mutex_);
};

}  // namespace

std::unique_ptr<Engine> make_thread_engine(std::size_t threads, std::size_t readers,
                                           std::shared_ptr<const Clock> clock) {
  return std::make_unique<ThreadEngine>(threads, readers, std::move(clock));
}

}  // namespace damacy
