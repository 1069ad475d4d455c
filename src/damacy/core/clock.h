// The time, behind an interface, so that tests can set it. The contract: tests/conformance/clock_suite.h.
#pragma once

#include <atomic>
#include <chrono>

namespace damacy {

class Clock {
 public:
  using Time = std::chrono::nanoseconds;  // since some fixed point
  virtual ~Clock() = default;
  virtual Time now() const noexcept = 0;  // any thread; never goes back
};

class SteadyClock final : public Clock {
 public:
  Time now() const noexcept override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

class ManualClock final : public Clock {
 public:
  Time now() const noexcept override { return Time(now_.load()); }
  void advance(Time by) noexcept { now_ += by.count(); }

 private:
  std::atomic<std::int64_t> now_{0};
};

}  // namespace damacy
