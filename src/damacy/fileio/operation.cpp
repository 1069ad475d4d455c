// Starts parts, ends the operation, and notifies waiters.
#include "damacy/fileio/operation.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/mutex.h"
#include "damacy/fileio/detail/callback_thread.h"

namespace damacy {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);  // how often a waiting caller is asked for signals
constexpr int kSpins = 64;                             // a small copy has ended before a sleep would
using SteadyTime = std::chrono::steady_clock::time_point;

std::optional<SteadyTime> until(std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  if (*timeout > SteadyTime::max() - now) return std::nullopt;
  return now + std::max(*timeout, std::chrono::nanoseconds(0));
}

}  // namespace

Operation::Operation(std::unique_ptr<IoJob> job)
    : job_(std::move(job)),
      parts_(job_->parts()),
      epoch_(fork_epoch()),
      ranges_(job_->ranges()),
      got_many_(ranges_ == 1 ? nullptr : std::make_unique<std::atomic<std::uint64_t>[]>(ranges_)),
      got_(ranges_ == 1 ? &got_one_ : got_many_.get()) {
  for (std::uint64_t r = 0; r < ranges_; ++r) got_[r] = job_->range_bytes(r);
  if (parts_ > 0) return;
  closed_ = ended_ = true;
  state_ = State::done;
  job_->ended();
  released_ = true;
}

Operation::~Operation() = default;

bool Operation::is_parents() const noexcept {
  return epoch_ != fork_epoch();
}

bool Operation::run_one() {
  const auto part = claim();
  if (!part) return false;
  run(*part);
  leave(*part);
  return true;
}

std::optional<std::uint64_t> Operation::claim() {
  if (!has_parts()) return std::nullopt;
  inside_.fetch_add(1, std::memory_order_acq_rel);
  const std::uint64_t part = next_.fetch_add(1, std::memory_order_acq_rel);
  if (part < parts_) return part;
  leave();
  return std::nullopt;
}

void Operation::run(std::uint64_t part) noexcept {
  try {
    job_->run(part, *this);
  } catch (...) {
    failed(part, std::current_exception());
  }
}

void Operation::leave(std::uint64_t part) noexcept {
  if (part + 1 == parts_) leave();  // nothing is left to start
  leave();
}

void Operation::leave() noexcept {
  if (inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) finish();
}

bool Operation::drop_rest(bool as_cancelled) {
  {
    const Lock lock(outcome_.mutex);
    if (as_cancelled && outcome_.error != nullptr) return false;
    if (next_.exchange(parts_, std::memory_order_acq_rel) >= parts_) return false;
    if (as_cancelled) outcome_.cancel_asked = true;
  }
  if (as_cancelled) job_->stop();
  leave();
  return true;
}

void Operation::short_at(std::uint64_t range, std::uint64_t bytes) noexcept {
  std::uint64_t now = got_[range].load(std::memory_order_relaxed);
  while (bytes < now && !got_[range].compare_exchange_weak(now, bytes, std::memory_order_relaxed)) {
  }
}

void Operation::failed(std::uint64_t position, std::exception_ptr error) noexcept {
  {
    const Lock lock(outcome_.mutex);
    if (outcome_.cancel_asked) return;
    if (outcome_.error == nullptr || position < outcome_.failed_at) {
      outcome_.error = std::move(error);
      outcome_.failed_at = position;
    }
  }
  drop_rest(/*as_cancelled=*/false);
}

void Operation::copies_until(Event event) {
  const Lock lock(outcome_.mutex);
  outcome_.copies.push_back(std::move(event));
}

void Operation::finish() noexcept {
  if (closed_.exchange(true, std::memory_order_acq_rel)) return;
  bool somebody_listens = false;
  {
    const Lock lock(outcome_.mutex);
    if (outcome_.error == nullptr && !outcome_.cancel_asked) outcome_.error = job_->verdict(*this);
    state_ = outcome_.cancel_asked ? State::cancelled : State::done;
    // Who waits for the file to close finds this ended; who waits for this finds its files let go: they ask under the
    // lock.
    ended_.store(true, std::memory_order_release);
    job_->ended();
    released_.store(true, std::memory_order_release);
    somebody_listens = !outcome_.calls.empty();
  }
  outcome_.changed.notify_all();  // without the lock, which the woken take
  if (when_ended) when_ended(*this);
  if (somebody_listens) notify_callbacks();
}

bool Operation::done() {
  if (!parts_ended()) return false;
  try {
    for (const Event& event : copies())
      if (!event.ready()) return false;
  } catch (const Error&) {  // the copies failed: that is an end too
  }
  return true;
}

void Operation::run_waiting_parts(const std::function<void()>& interrupted) {
  while (help != nullptr ? help(*this) : run_one())
    if (interrupted) interrupted();
}

bool Operation::wait_parts(std::optional<std::chrono::nanoseconds> timeout, const std::function<void()>& interrupted) {
  if (released_.load(std::memory_order_acquire)) return true;
  const auto end = until(timeout);
  if (!timeout && !parts_ended()) run_waiting_parts(interrupted);
  Lock lock(outcome_.mutex);
  while (!parts_ended()) {
    const auto now = std::chrono::steady_clock::now();
    if (end && now >= *end) return false;
    if (interrupted) {
      outcome_.changed.wait_until(lock, end ? std::min(*end, now + kLook) : now + kLook);
      lock.unlock();
      interrupted();
      lock.lock();
    } else if (end) {
      outcome_.changed.wait_until(lock, *end);
    } else {
      outcome_.changed.wait(lock);
    }
  }
  return true;
}

bool Operation::wait(std::optional<std::chrono::nanoseconds> timeout, const std::function<void()>& interrupted) {
  const auto end = until(timeout);
  return wait_parts(timeout, interrupted) && await_copies(end, interrupted);
}

bool Operation::await_copies(std::optional<SteadyTime> end, const std::function<void()>& interrupted) {
  try {
    for (const Event& event : copies()) {
      if (!end && !interrupted) {
        event.wait();
        continue;
      }
      for (int asked = 0; !event.ready(); ++asked) {
        if (end && std::chrono::steady_clock::now() >= *end) return false;
        if (asked < kSpins) {
          std::this_thread::yield();
          continue;
        }
        if (interrupted) interrupted();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  } catch (const Error&) {
    const Lock lock(outcome_.mutex);
    if (outcome_.error == nullptr) outcome_.error = std::current_exception();
  }
  return true;
}

void Operation::run_all(const std::function<void()>& interrupted) {
  try {
    for (auto looked = std::chrono::steady_clock::now(); run_one();) {
      const auto now = std::chrono::steady_clock::now();
      if (now - looked < kLook) continue;
      looked = now;
      if (interrupted) interrupted();
    }
    wait(std::nullopt, interrupted);
  } catch (...) {
    drop_rest(/*as_cancelled=*/true);
    wait(std::nullopt);
    throw;
  }
}

const OneOrMore<Event>& Operation::copies() const DAMACY_NO_THREAD_SAFETY_ANALYSIS {
  return outcome_.copies;  // none is added after parts_ended()
}

std::exception_ptr Operation::error() const DAMACY_NO_THREAD_SAFETY_ANALYSIS {
  if (is_parents()) return outcome_.error;  // asked only when it ended before the fork
  const Lock lock(outcome_.mutex);
  return outcome_.error;
}

std::uint64_t Operation::count() const noexcept {
  std::uint64_t sum = 0;
  for (std::uint64_t r = 0; r < ranges_; ++r) sum += limit(r);
  return sum;
}

std::vector<std::uint64_t> Operation::counts() const {
  std::vector<std::uint64_t> all(ranges_);
  for (std::uint64_t r = 0; r < ranges_; ++r) all[r] = limit(r);
  return all;
}

void Operation::when_done(std::function<void()> call) {
  {
    const Lock lock(outcome_.mutex);
    if (!parts_ended()) {
      outcome_.calls.push_back(std::move(call));
      return;
    }
    if (!outcome_.copies.empty() && !outcome_.settled) {
      outcome_.calls.push_back(std::move(call));
      call = nullptr;
    }
  }
  if (call)
    call();
  else
    notify_callbacks();
}

void Operation::notify_callbacks() noexcept {
  CallbackThread::process().add(shared_from_this(), [](Operation& ended) { ended.settle(); });
}

void Operation::settle() {
  await_copies(std::nullopt, {});
  std::vector<std::function<void()>> calls;
  {
    const Lock lock(outcome_.mutex);
    outcome_.settled = true;
    calls.swap(outcome_.calls);
  }
  for (const auto& call : calls) call();
}

}  // namespace damacy
