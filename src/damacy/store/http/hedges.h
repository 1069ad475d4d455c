// When a request is sent twice: if its first byte is late, by what is usual of its origin, and while few are. Knows
// times and counts, which are given; not requests. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "damacy/core/clock.h"
#include "damacy/core/mutex.h"

namespace damacy::http {

class Hedges {
 public:
  void answered(Clock::Time first_byte);  // since the request was sent
  void repeated();                        // a request failed and is sent again
  // A request without a first byte for longer is late; empty: too few answers are known.
  [[nodiscard]] std::optional<Clock::Time> patience();
  // Whether one more may be sent twice; then it counts.
  [[nodiscard]] bool pay();

 private:
  static constexpr std::size_t kKept = 256;
  static constexpr std::int64_t kLeastKnown = 8, kKnown = 32;
  static constexpr std::int64_t kPart = 50;  // one of so many requests
  static constexpr std::int64_t kAtFirst = 8;

  Mutex mutex_;
  std::array<Clock::Time, kKept> times_ DAMACY_GUARDED_BY(mutex_){};  // the last ones
  std::int64_t answers_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::int64_t repeats_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::int64_t hedges_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::optional<Clock::Time> patience_ DAMACY_GUARDED_BY(mutex_);
  std::int64_t patience_at_ DAMACY_GUARDED_BY(mutex_) = 0;  // answers_ when it was found
};

}  // namespace damacy::http
