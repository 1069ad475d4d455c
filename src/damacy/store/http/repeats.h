// When a failed request is sent again: attempts, pauses, and the budget of an origin. Knows no request. The time and
// the random numbers are given.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "damacy/core/clock.h"
#include "damacy/core/mutex.h"
#include "damacy/store/http/hedges.h"
#include "damacy/store/http/verdict.h"

namespace damacy::http {

// Random numbers, behind an interface, so that tests can set them.
class Chance {
 public:
  virtual ~Chance() = default;
  virtual double next() noexcept = 0;  // from 0 to below 1; any thread
};
[[nodiscard]] std::shared_ptr<Chance> make_chance();

// What all stores of one origin (scheme, host and port) share: the budget of repeats, and the time before which the
// server wants no request. Thread-safe.
class Pace {
 public:
  // Pays for a repeat; false: the budget is used up. Of broken connections those within 100 ms cost one repeat.
  [[nodiscard]] bool pay(Clock::Time now, bool is_broken);
  void succeeded();  // gives a tenth of a repeat back
  void hold_until(Clock::Time when);
  [[nodiscard]] Clock::Time held_until() const;
  [[nodiscard]] const std::shared_ptr<Hedges>& hedges() const noexcept { return hedges_; }
  [[nodiscard]] bool is_first_use() { return !is_used_.exchange(true); }  // true once

 private:
  static constexpr int kRepeat = 10, kMost = 100 * kRepeat;  // in tenths

  std::atomic<bool> is_used_{false};
  const std::shared_ptr<Hedges> hedges_ = std::make_shared<Hedges>();
  mutable Mutex mutex_;
  int left_ DAMACY_GUARDED_BY(mutex_) = kMost;
  Clock::Time held_until_ DAMACY_GUARDED_BY(mutex_){};
  std::optional<Clock::Time> broke_ DAMACY_GUARDED_BY(mutex_);  // when a broken connection was paid for
};

// Of the process.
[[nodiscard]] std::shared_ptr<Pace> pace_of(std::string_view url);

// The attempts of one read.
class Repeats {
 public:
  Repeats(int most, Clock::Time now, Clock::Time end, Chance& chance)
      : most_(most), begin_(now), end_(end), chance_(chance) {}

  // After a failed attempt: how long to wait before the next one; empty: the failure is final. `wished`: the seconds
  // that the server named.
  [[nodiscard]] std::optional<Clock::Time> after(const Failure& failure, std::optional<int> wished, Clock::Time now,
                                                 Pace& pace);
  int attempts() const { return attempts_; }
  Clock::Time begin() const { return begin_; }
  Clock::Time end() const { return end_; }

 private:
  const int most_;
  const Clock::Time begin_, end_;
  Chance& chance_;
  int attempts_ = 0, doublings_ = 0;
  unsigned asked_once_more_ = 0;  // of Once
};

}  // namespace damacy::http
