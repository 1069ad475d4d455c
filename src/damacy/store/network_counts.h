// What the requests of one owner's remote stores, for example of one pipeline, came to: exact counts, and the times
// until their first bytes. Knows numbers; not what is asked for. Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "damacy/core/mutex.h"

namespace damacy {

class NetworkCounts {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Each request begins and ends once. `most`: how many may ever be under way to its origin, `allowed`: may be now.
  void began(std::size_t most, std::size_t allowed);
  struct End {
    Time began{};
    std::int64_t body_bytes = 0;
    std::int64_t connections = 0;              // opened for it
    bool is_throttled = false;                 // 429 or 503
    std::chrono::microseconds first_byte{-1};  // since it was sent; below 0: there was none
  };
  void ended(Time now, const End& end);
  void repeated();     // a request is sent again
  void hedged();       // a request is sent once more, because its answer is late
  void hedge_won();    // and its answer came first
  void revalidated();  // what is known of an object was too old

  struct Seen {
    std::int64_t requests = 0, repeated = 0, throttled = 0, connections = 0, body_bytes = 0, revalidated = 0;
    std::int64_t hedged = 0, hedges_won = 0;
    std::int64_t under_way = 0;                           // now
    std::int64_t most = 0;                                // of all `most`, the largest
    std::int64_t allowed = 0;                             // with the last request
    double request_ms = 0;                                // the sum of all requests that ended
    std::int64_t first_bytes = 0;                         // how many had one
    double first_byte_ms = 0, best_first_byte_ms = 1e30;  // the sum; the least
    double median_ms = 0, p99_ms = 0;                     // of first bytes, within 10 %
  };
  [[nodiscard]] Seen seen() const;
  void reset();  // all except what is under way

 private:
  // Of first bytes: bucket i begins at 0.01 ms * 1.2^i, and the last one has no end.
  static constexpr std::size_t kBuckets = 96;

  [[nodiscard]] double quantile(double part) const DAMACY_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Seen seen_ DAMACY_GUARDED_BY(mutex_);
  std::array<std::int64_t, kBuckets> first_bytes_ DAMACY_GUARDED_BY(mutex_){};
};

}  // namespace damacy
