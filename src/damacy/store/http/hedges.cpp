#include "damacy/store/http/hedges.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace damacy::http {
namespace {

constexpr Clock::Time kLeast = std::chrono::milliseconds(50);
constexpr std::int64_t kFoundAgain = 16;  // answers later
constexpr std::int64_t kMedians = 4;

}  // namespace

void Hedges::answered(Clock::Time first_byte) {
  const Lock lock(mutex_);
  times_[static_cast<std::size_t>(answers_) % kKept] = first_byte;
  ++answers_;
}

void Hedges::repeated() {
  const Lock lock(mutex_);
  ++repeats_;
}

// The longest hundredth does not count, and at least one: a late answer must not make the next one usual.
std::optional<Clock::Time> Hedges::patience() {
  const Lock lock(mutex_);
  if (answers_ < static_cast<std::int64_t>(kKnown)) return std::nullopt;
  if (patience_ && answers_ - patience_at_ < kFoundAgain) return patience_;
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(answers_, kKept));
  std::array<Clock::Time, kKept> sorted = times_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  const Clock::Time p99 = sorted[count * 99 / 100 - 1];
  patience_ = std::max({p99, kMedians * sorted[count / 2], kLeast});
  patience_at_ = answers_;
  return patience_;
}

// Where many requests fail, the server has trouble, and more requests make it worse.
bool Hedges::pay() {
  const Lock lock(mutex_);
  const std::int64_t most = answers_ / kPart;
  if (repeats_ > most || hedges_ >= std::max(most, kAtFirst)) return false;
  ++hedges_;
  return true;
}

}  // namespace damacy::http
