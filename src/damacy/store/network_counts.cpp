#include "damacy/store/network_counts.h"

#include <algorithm>
#include <cmath>

namespace damacy {
namespace {

constexpr double kFirstBucketMs = 0.01;
constexpr double kGrowth = 1.2;

double milliseconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

void NetworkCounts::began(std::size_t most, std::size_t allowed) {
  const Lock lock(mutex_);
  ++seen_.requests;
  ++seen_.under_way;
  seen_.most = std::max(seen_.most, static_cast<std::int64_t>(most));
  seen_.allowed = static_cast<std::int64_t>(allowed);
}

void NetworkCounts::ended(Time now, const End& end) {
  const Lock lock(mutex_);
  --seen_.under_way;
  seen_.request_ms += milliseconds_of(now - end.began);
  seen_.body_bytes += end.body_bytes;
  seen_.connections += end.connections;
  if (end.is_throttled) ++seen_.throttled;
  if (end.first_byte < std::chrono::microseconds(0)) return;
  const double ms = milliseconds_of(end.first_byte);
  ++seen_.first_bytes;
  seen_.first_byte_ms += ms;
  seen_.best_first_byte_ms = std::min(seen_.best_first_byte_ms, ms);
  const double bucket = ms <= kFirstBucketMs ? 0 : std::log(ms / kFirstBucketMs) / std::log(kGrowth);
  ++first_bytes_[std::min(static_cast<std::size_t>(bucket), kBuckets - 1)];
}

void NetworkCounts::repeated() {
  const Lock lock(mutex_);
  ++seen_.repeated;
}

void NetworkCounts::hedged() {
  const Lock lock(mutex_);
  ++seen_.hedged;
}

void NetworkCounts::hedge_won() {
  const Lock lock(mutex_);
  ++seen_.hedges_won;
}

void NetworkCounts::revalidated() {
  const Lock lock(mutex_);
  ++seen_.revalidated;
}

double NetworkCounts::quantile(double part) const {
  if (seen_.first_bytes == 0) return 0;
  const auto wanted = static_cast<std::int64_t>(std::ceil(part * static_cast<double>(seen_.first_bytes)));
  std::int64_t below = 0;
  std::size_t bucket = 0;
  for (; bucket + 1 < kBuckets; ++bucket)
    if ((below += first_bytes_[bucket]) >= wanted) break;
  return kFirstBucketMs * std::pow(kGrowth, static_cast<double>(bucket) + 0.5);
}

NetworkCounts::Seen NetworkCounts::seen() const {
  const Lock lock(mutex_);
  Seen seen = seen_;
  seen.median_ms = quantile(0.5);
  seen.p99_ms = quantile(0.99);
  return seen;
}

void NetworkCounts::reset() {
  const Lock lock(mutex_);
  Seen none;
  none.under_way = seen_.under_way;
  none.most = seen_.most;
  none.allowed = seen_.allowed;
  seen_ = none;
  first_bytes_ = {};
}

}  // namespace damacy
