#include "damacy/store/http/hedges.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace damacy::http {
namespace {

constexpr std::int64_t kFoundAgain = 16;  // answers later
constexpr std::size_t kPartThatMayBeLate = 32;

struct Rule {
  std::int64_t medians;
  Clock::Time least;
};
constexpr Rule kOfFew{8, std::chrono::milliseconds(200)};  // answers: what is usual is not known well
constexpr Rule kOfMany{3, std::chrono::milliseconds(30)};

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

// The longest answers do not count, and at least one: late ones must not make the next usual. Of 256 answers of which
// one in a hundred is late, more than a hundredth is late in one case of four, more than a 32nd in one of a thousand.
std::optional<Clock::Time> Hedges::patience() {
  const Lock lock(mutex_);
  if (answers_ < kLeastKnown) return std::nullopt;
  const bool are_few = answers_ < kKnown;
  const bool is_of_few = patience_at_ < kKnown;
  if (patience_ && are_few == is_of_few && answers_ - patience_at_ < kFoundAgain) return patience_;
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(answers_, kKept));
  std::array<Clock::Time, kKept> sorted = times_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  const Clock::Time longest = sorted[count - 1 - std::max<std::size_t>(count / kPartThatMayBeLate, 1)];
  const Rule& rule = are_few ? kOfFew : kOfMany;
  patience_ = std::max({longest, rule.medians * sorted[count / 2], rule.least});
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
