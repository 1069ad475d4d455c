#include "damacy/store/http/repeats.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "damacy/core/fork.h"

namespace damacy::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPause{100};
constexpr milliseconds kThrottledPause{1000};
constexpr milliseconds kLongestPause{20'000};
constexpr seconds kRestart{10};  // a server that is started again is back in seconds
constexpr milliseconds kOneFault{100};
constexpr std::size_t kOrigins = 1024;

class RandomChance final : public Chance {
 public:
  double next() noexcept override {
    thread_local std::minstd_rand random{std::random_device{}()};
    return std::min(std::uniform_real_distribution<double>()(random), 0.999999);
  }
};

class Paces {
 public:
  std::shared_ptr<Pace> of(std::string_view origin) {
    const Lock lock(mutex_);
    const auto at = paces_.find(origin);
    if (at != paces_.end()) return at->second;
    if (paces_.size() >= kOrigins) std::erase_if(paces_, [](const auto& each) { return each.second.use_count() == 1; });
    return paces_.emplace(origin, std::make_shared<Pace>()).first->second;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Pace>, std::less<>> paces_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Chance> make_chance() {
  return std::make_shared<RandomChance>();
}

bool Pace::pay(Clock::Time now, bool is_broken) {
  const Lock lock(mutex_);
  if (is_broken && broke_ && now - *broke_ < kOneFault) return true;
  if (left_ < kRepeat) return false;
  left_ -= kRepeat;
  if (is_broken) broke_ = now;
  return true;
}

void Pace::succeeded() {
  const Lock lock(mutex_);
  left_ = std::min(left_ + 1, kMost);
}

void Pace::hold_until(Clock::Time when) {
  const Lock lock(mutex_);
  held_until_ = std::max(held_until_, when);
}

Clock::Time Pace::held_until() const {
  const Lock lock(mutex_);
  return held_until_;
}

std::shared_ptr<Pace> pace_of(std::string_view url) {
  const std::size_t host = url.find("://");
  const std::size_t end = host == url.npos ? url.size() : std::min(url.find('/', host + 3), url.find('?', host + 3));
  return one_per_process<Paces>().of(url.substr(0, end));
}

std::optional<Clock::Time> Repeats::after(const Failure& failure, std::optional<int> wished, Clock::Time now,
                                          Pace& pace) {
  ++attempts_;
  if (!failure.again || now >= end_) return std::nullopt;
  const auto once = static_cast<unsigned>(failure.once);
  if ((std::exchange(asked_once_more_, asked_once_more_ | once) & once) != 0) return std::nullopt;
  const bool may_restart = failure.is_broken && now - begin_ < kRestart;
  if (attempts_ >= most_ && !may_restart) return std::nullopt;
  Clock::Time wait{};
  if (wished) {
    wait = seconds(*wished);
    pace.hold_until(now + wait);
  } else if (!failure.at_once) {
    const milliseconds base = failure.reason == std::string_view("throttled") ? kThrottledPause : kPause;
    const auto most = std::min<Clock::Time>(base * (1 << std::min(doublings_++, 10)), kLongestPause);
    wait = Clock::Time(static_cast<Clock::Time::rep>(static_cast<double>(most.count()) * chance_.next()));
    // The last attempt is not long after the ten seconds.
    if (attempts_ >= most_) wait = std::min<Clock::Time>(wait, begin_ + kRestart - now);
  }
  if (now + wait >= end_ || !pace.pay(now, failure.is_broken)) return std::nullopt;
  return wait;
}

}  // namespace damacy::http
