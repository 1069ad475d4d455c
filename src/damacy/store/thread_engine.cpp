// Threads that take requests from one queue, in order, and run each from beginning to end. A thread stuck in storage is
// replaced. Requests that can be sent are prepared by one more thread, the sender, which alone waits for their memory;
// their reads are under way without a thread, and the readers complete them. Knows no files and no policy.
#include <algorithm>
#include <deque>
#include <new>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "damacy/core/address_space.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/core/on_failure.h"
#include "damacy/core/thread.h"
#include "damacy/store/detail/request_runs.h"
#include "damacy/store/engine.h"

namespace damacy {
namespace {

using detail::Sent;

constexpr std::size_t kAbandonedAtMost = 256;  // threads of one engine that storage may hold, and be replaced
constexpr std::size_t kSentAtMost = 512;       // reads under way, or landed and not yet completed
constexpr auto kLook = std::chrono::milliseconds(20);

// State shared by the engine and its threads. Lives as long as the last of them.
struct Shared {
  Shared(std::size_t threads_of, std::size_t readers_of) : threads(threads_of), readers(readers_of) {}

  struct Worker {
    Worker(std::shared_ptr<const Clock> clock, std::size_t number_of, bool is_sender_of)
        : watch(std::move(clock)), number(number_of), is_sender(is_sender_of) {}
    StorageWatch watch;
    const std::size_t number;
    const bool is_sender;
    bool reading = false;  // a request that only reads
    bool running = false;  // a request that was not sent: it may wait for memory
    bool left = false;     // its thread will touch nothing more, or was abandoned
    Thread thread;         // the engine's
  };

  // A thread for one reader.
  struct Work {
    std::unique_ptr<Request> request;
    std::shared_ptr<Sent> sent;  // or this
    explicit operator bool() const noexcept { return request || sent; }
  };

  // What was sent holds memory that others may wait for: one reader is kept for it.
  bool keeps_a_reader() const DAMACY_REQUIRES(mutex) { return !to_send.empty() || is_sending || !sent.empty(); }

  bool can_take() const DAMACY_REQUIRES(mutex) {
    if (!landed.empty()) return true;
    if (keeps_a_reader() && !stopping && running + 1 >= threads) return false;
    if (!urgent.empty()) return true;
    return !waiting.empty() && (reading < readers || stopping || !waiting.front()->only_reads());
  }

  Work take() DAMACY_REQUIRES(mutex) {
    if (!can_take()) return {};
    if (!landed.empty()) {
      Work work{nullptr, std::move(landed.front())};
      landed.pop_front();
      sent.erase(work.sent.get());
      if (!to_send.empty()) may_send.notify_one();
      return work;
    }
    auto& from = urgent.empty() ? waiting : urgent;
    Work work{std::move(from.front()), nullptr};
    from.pop_front();
    return work;
  }

  // True: notify a reader, without the lock, which it needs. One that was notified and does not run yet notifies the
  // next one itself.
  [[nodiscard]] bool wakes_a_reader() noexcept DAMACY_REQUIRES(mutex) {
    if (is_waking || sleeping == 0 || !can_take()) return false;
    return is_waking = true;
  }

  void end_run(Worker& worker) DAMACY_REQUIRES(mutex) {
    if (std::exchange(worker.reading, false)) --reading;
    if (std::exchange(worker.running, false)) {
      --running;
      if (!to_send.empty()) may_send.notify_one();
    }
  }

  // Empty: the thread ends.
  Work next(Worker& worker) {
    if (worker.watch.abandoned()) return {};
    Lock lock(mutex);
    end_run(worker);
    while (!stopping) {
      if (Work work = take()) {
        worker.running = work.request != nullptr;
        worker.reading = worker.running && work.request->only_reads();
        if (worker.running) ++running;
        if (worker.reading) ++reading;
        const bool wakes = wakes_a_reader();
        lock.unlock();
        if (wakes) changed.notify_one();
        return work;
      }
      ++sleeping;
      changed.wait(lock);
      --sleeping;
      is_waking = false;
    }
    leave(worker);
    return {};
  }

  // The sender's. Empty: it ends.
  std::unique_ptr<Request> next_to_send(Worker& worker) {
    if (worker.watch.abandoned()) return nullptr;
    Lock lock(mutex);
    is_sending = false;
    if (wakes_a_reader()) changed.notify_one();
    may_send.wait(lock, [this]() DAMACY_REQUIRES(mutex) {
      return stopping || (!to_send.empty() && sent.size() < kSentAtMost && running < threads);
    });
    if (stopping) {
      leave(worker);
      return nullptr;
    }
    is_sending = true;
    auto request = std::move(to_send.front());
    to_send.pop_front();
    return request;
  }

  void leave(Worker& worker) DAMACY_REQUIRES(mutex) {
    worker.left = true;
    ended.notify_all();
  }

  static void send(const std::shared_ptr<Shared>& shared, std::unique_ptr<Request> request,
                   std::stop_token stop) noexcept {
    Request& preparing = *request;
    const StorageWatch::Scope scope(preparing.can_be_abandoned() ? &preparing : nullptr);
    try {
      const auto one = std::make_shared<Sent>();
      one->request = std::move(request);
      one->failure = failure_of([&] {
        one->part = preparing.prepare(0, std::move(stop));
        if (one->part.dst.empty()) return;
        const Part& part = one->part;
        one->read = part.object->start_read(part.offset, part.dst, [shared, one] { shared->land(*one); });
      });
      shared->started(one);
    } catch (const Abandoned&) {
    }
  }

  void land(Sent& one) noexcept {
    Lock lock(mutex);
    one.has_landed = true;
    const auto at = sent.find(&one);
    if (at == sent.end()) return;  // not yet started, or cancelled
    landed.push_back(at->second);
    const bool wakes = wakes_a_reader();
    lock.unlock();
    if (wakes) changed.notify_one();
  }

  void started(const std::shared_ptr<Sent>& one) {
    Lock lock(mutex);
    sent.emplace(one.get(), one);
    if (one->read && !one->has_landed) return;
    landed.push_back(one);
    const bool wakes = wakes_a_reader();
    lock.unlock();
    if (wakes) changed.notify_one();
  }

  static void serve(const std::shared_ptr<Shared>& shared, const std::shared_ptr<Worker>& worker) {
    worker->watch.attach_thread();
    const std::stop_token token = shared->stop.get_token();
    if (worker->is_sender)
      while (auto request = shared->next_to_send(*worker)) send(shared, std::move(request), token);
    else
      while (auto work = shared->next(*worker)) {
        if (work.request)
          detail::run(*work.request, worker->number, token);
        else
          detail::complete(*work.sent, worker->number);
      }
    if (worker->watch.abandoned()) shared->come_back(*worker);
  }

  // An abandoned thread whose storage call has returned.
  void come_back(const Worker& worker) noexcept {
    std::shared_ptr<void> last;  // let go without the lock
    Lock lock(mutex);
    ended.wait(lock, [&] { return worker.left; });
    if (--abandoned == 0) last = std::move(keep);
  }

  const std::size_t threads;  // without the sender
  const std::size_t readers;
  Mutex mutex;
  Condition changed;
  Condition may_send;  // the sender's
  Condition ended;
  std::deque<std::unique_ptr<Request>> urgent DAMACY_GUARDED_BY(mutex);  // submission order among themselves
  std::deque<std::unique_ptr<Request>> waiting DAMACY_GUARDED_BY(mutex);
  std::deque<std::unique_ptr<Request>> to_send DAMACY_GUARDED_BY(mutex);
  std::unordered_map<const Sent*, std::shared_ptr<Sent>> sent DAMACY_GUARDED_BY(mutex);  // not yet taken by a reader
  std::deque<std::shared_ptr<Sent>> landed DAMACY_GUARDED_BY(mutex);                     // of them
  bool has_sender DAMACY_GUARDED_BY(mutex) = false;
  bool is_sending DAMACY_GUARDED_BY(mutex) = false;
  std::size_t running DAMACY_GUARDED_BY(mutex) = 0;  // requests that were not sent
  std::size_t sleeping DAMACY_GUARDED_BY(mutex) = 0;
  bool is_waking DAMACY_GUARDED_BY(mutex) = false;     // one of them was notified, and does not run yet
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
        shared_(std::make_shared<Shared>(count_, std::max<std::size_t>(readers, 1))) {
    workers_.reserve(count_ + 1);
    const OnFailure undo([this] {
      const Lock lock(workers_mutex_);
      end();
    });
    try {
      for (std::size_t i = 0; i < count_; ++i) workers_.push_back(start(i, /*is_sender=*/false));
    } catch (const std::system_error& error) {
      throw Error(Status::oom,
                  formatted("cannot start reader thread {} of {}: {}{}", workers_.size() + 1, count_, error.what(),
                            address_space_note()),
                  "memory")
          .with_errno(error.code().value());
    }
  }

  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  ~ThreadEngine() override {
    end();
    refuse(shutdown_);
  }

  void submit(std::unique_ptr<Request> request) override {
    const bool is_sent = request->can_be_sent() && has_sender();
    add(is_sent ? &Shared::to_send : &Shared::waiting, std::move(request));
  }
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
  std::shared_ptr<Worker> start(std::size_t number, bool is_sender) {
    auto worker = std::make_shared<Worker>(clock_, number, is_sender);
    worker->thread = Thread("damacy-read", [shared = shared_, worker = worker] { Shared::serve(shared, worker); });
    return worker;
  }

  // Starts the sender with the first request for it. False: readers do without.
  bool has_sender() noexcept {
    {
      const Lock lock(shared_->mutex);
      if (shared_->has_sender || shared_->stopping) return shared_->has_sender;
    }
    if (!workers_mutex_.try_lock()) return false;  // a stop may wait for this thread
    bool has_sender = false;
    try {
      const bool is_new = [&] {
        const Lock lock(shared_->mutex);
        has_sender = shared_->has_sender;
        return !has_sender && !shared_->stopping;
      }();
      if (is_new) {
        workers_.push_back(start(0, /*is_sender=*/true));
        const Lock lock(shared_->mutex);
        has_sender = shared_->has_sender = true;
      }
    } catch (...) {
      log_current_error(LogLevel::warn);
    }
    workers_mutex_.unlock();
    return has_sender;
  }

  void add(std::deque<std::unique_ptr<Request>> Shared::* queue, std::unique_ptr<Request> request) {
    bool wakes = false;
    const Error* refusal = nullptr;
    try {
      const Lock lock(shared_->mutex);
      refusal = shared_->refusal;
      if (refusal == nullptr) {
        (shared_.get()->*queue).push_back(std::move(request));
        wakes = shared_->sleeping > 0 && shared_->can_take();
        if (queue == &Shared::to_send) shared_->may_send.notify_one();
      }
    } catch (const std::bad_alloc&) {  // push_back then moved nothing
      const Error failure = current_error();
      return request->complete(0, Part{}, &failure);
    }
    // NOLINTNEXTLINE(bugprone-use-after-move): moved only without a refusal
    if (refusal != nullptr) return request->complete(0, Part{}, refusal);
    if (wakes) shared_->changed.notify_one();
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
    shared_->end_run(worker);
    ++shared_->abandoned;
    shared_->changed.notify_one();
    shared_->ended.notify_all();
  }

  // Without a reader no request can run: waiting requests fail.
  void replace(std::shared_ptr<Worker>& worker) noexcept DAMACY_REQUIRES(workers_mutex_) {
    std::size_t held = 0;
    {
      const Lock lock(shared_->mutex);
      held = shared_->abandoned;
    }
    try {
      if (held < kAbandonedAtMost) {
        worker = start(worker->number, worker->is_sender);
        return;
      }
    } catch (...) {
      log_current_error(LogLevel::warn);
    }
    if (worker->is_sender) return read_instead();
    if (!std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->left; })) return;
    refuse(unanswered_);
  }

  // Without a sender the readers do its work.
  void read_instead() noexcept {
    const Lock lock(shared_->mutex);
    shared_->has_sender = shared_->is_sending = false;
    try {
      for (auto& request : shared_->to_send) shared_->waiting.push_back(std::move(request));
      shared_->to_send.clear();
    } catch (const std::bad_alloc&) {  // the rest is moved with the next request
      std::erase(shared_->to_send, nullptr);
    }
    shared_->changed.notify_all();
  }

  void request_stop() noexcept DAMACY_REQUIRES(workers_mutex_) {
    shared_->stop.request_stop();
    for (const auto& worker : workers_) worker->watch.cancel_remote();
    {
      const Lock lock(shared_->mutex);
      shared_->stopping = true;
    }
    shared_->changed.notify_all();
    shared_->may_send.notify_all();
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
    cancel_sent(why);
    for (;;) {
      std::unique_ptr<Request> request;
      {
        const Lock lock(shared_->mutex);
        for (auto* const queue : {&shared_->urgent, &shared_->waiting, &shared_->to_send}) {
          if (queue->empty()) continue;
          request = std::move(queue->front());
          queue->pop_front();
          break;
        }
      }
      if (!request) return;
      request->complete(0, Part{}, &why);
    }
  }

  // Their memory is free afterwards.
  void cancel_sent(const Error& why) noexcept {
    std::unordered_map<const Sent*, std::shared_ptr<Sent>> sent;
    {
      const Lock lock(shared_->mutex);
      sent.swap(shared_->sent);
      shared_->landed.clear();
    }
    for (const auto& [key, one] : sent) {
      one->read.reset();
      one->request->complete(0, one->part, &why);
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
