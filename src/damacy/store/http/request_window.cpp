#include "damacy/store/http/request_window.h"

#include <algorithm>
#include <chrono>

namespace damacy::http {
namespace {

// A measurement is a whole number of turns of the window, because answers come in bursts, and takes at least so long.
constexpr Clock::Time kMeasured = std::chrono::milliseconds(50);
constexpr double kAnswerBytes = 16 << 10;  // an answer without a body is work, too
constexpr double kGain = 1.05;             // of a larger size, for a further step
constexpr double kSomeGain = 1.02;         // or at least to keep it
constexpr double kFewLost = 0.9;           // by a larger size where no request waits: servers may serve a crowd worse
constexpr double kNoLoss = 0.97;           // of a smaller size
constexpr double kChange = 0.2;            // of the rate of one size: the network is not what it was
constexpr int kRestsAtMost = 16;           // measurements between two attempts to find a better size
constexpr int kStallsAtMost = 2;
constexpr double kWaits = 1.2;         // first bytes that take so much longer than the least wait for other answers
constexpr double kWaitsAtStart = 1.1;  // sooner, because each step is seen only when its requests end
constexpr double kWaitsLong = 2;
constexpr std::size_t kFirstInTime = 8, kAnswersToJudge = 16;
constexpr Clock::Time kLeastKept = std::chrono::seconds(10);

std::size_t larger(std::size_t size) {
  return size + std::max<std::size_t>(size / 4, 1);
}

std::size_t smaller(std::size_t size) {
  return size - std::max<std::size_t>(size / 5, 1);
}

}  // namespace

std::size_t RequestWindow::size() const noexcept {
  return std::min(std::max(size_, kLeast), most_);
}

void RequestWindow::ended(Clock::Time now, const End& end) noexcept {
  const bool began_since = !halved_ || end.began >= *halved_;
  if (end.how == How::stalled && began_since) ++stalls_;
  if ((end.how == How::refused && began_since) || stalls_ >= kStallsAtMost) return halve(now);
  const auto rate = measured(now, end);
  if (phase_ == Phase::starting) return start_up(end);
  if (rate) decide(*rate);
}

// Two more for each answer in time of the first turn, then one: up to 96, 128, then twice as many. Answers that come
// together wait for each other, however few there are. So more requests only wait once the first byte that waited
// least, of as many answers as may be under way, is late, too.
void RequestWindow::start_up(const End& end) noexcept {
  if (end.how != How::answered || !end.all_used) return;
  const auto least = static_cast<double>(std::min(least_, least_before_).count());
  const auto is_late = [&](double first_byte, double times) { return first_byte > times * least; };
  turn_.least = std::min(turn_.least, static_cast<double>(end.first_byte.count()));
  turn_.sum += static_cast<double>(end.first_byte.count());
  ++turn_.answers;
  const bool is_turn = turn_.answers >= turn_.size;
  const bool is_full =
      (is_turn && is_late(turn_.least, kWaitsAtStart)) ||
      (turn_.answers >= kAnswersToJudge && is_late(turn_.sum / static_cast<double>(turn_.answers), kWaitsLong));
  if (end.first_byte <= Clock::Time(0) || size() >= most_ || is_full) {
    phase_ = Phase::resting;
    return restart();
  }
  if (!is_late(static_cast<double>(end.first_byte.count()), kWaitsAtStart)) add_in_time();
  if (is_turn) turn_ = {size(), turn_.for_each > 1 ? 4 * kStart : 2 * size(), 1};
}

void RequestWindow::add_in_time() noexcept {
  if (++in_time_ < kFirstInTime) return;
  const std::size_t answers = in_time_ == kFirstInTime ? kFirstInTime : 1;
  size_ = std::min({size() + turn_.for_each * answers, turn_.most, most_});
}

// The rate, at the end of a measurement. Times in which not all requests were used do not count.
std::optional<double> RequestWindow::measured(Clock::Time now, const End& end) noexcept {
  const Clock::Time since = last_end_ ? now - *last_end_ : Clock::Time(0);
  const bool counts = last_end_ && end.all_used && end.how == How::answered;
  last_end_ = now;
  if (end.how == How::answered && end.first_byte > Clock::Time(0)) note_least(now, end.first_byte);
  if (!counts) return std::nullopt;
  if (to_skip_ > 0) {
    --to_skip_;
    return std::nullopt;
  }
  time_ += since;
  work_ += static_cast<double>(end.bytes) + kAnswerBytes;
  if (end.first_byte > Clock::Time(0)) {
    first_bytes_ += end.first_byte;
    ++first_byte_count_;
  }
  if (++answers_ % size() != 0 || time_ < kMeasured) return std::nullopt;
  const double rate = work_ / std::chrono::duration<double>(time_).count();
  is_queued_ = has_queue();
  restart();
  to_skip_ = 0;  // unless the size changes
  return rate;
}

// Measures the size from here on, once the requests of the one before have ended.
void RequestWindow::restart() noexcept {
  to_skip_ = size();
  answers_ = 0;
  work_ = 0;
  time_ = Clock::Time(0);
  first_bytes_ = Clock::Time(0);
  first_byte_count_ = 0;
}

// Forgets what was long ago: the way to the server may be another one now.
void RequestWindow::note_least(Clock::Time now, Clock::Time first_byte) noexcept {
  if (now - least_since_ > kLeastKept) {
    least_before_ = least_;
    least_ = Clock::Time::max();
    least_since_ = now;
  }
  least_ = std::min(least_, first_byte);
}

bool RequestWindow::has_queue() const noexcept {
  if (first_byte_count_ == 0) return true;  // unknown: the rate decides
  const auto least = static_cast<double>(std::min(least_, least_before_).count());
  return static_cast<double>(first_bytes_.count()) / static_cast<double>(first_byte_count_) > kWaits * least;
}

void RequestWindow::decide(double rate) noexcept {
  const std::size_t before = size();
  const Phase was = phase_;
  size_ = before;
  switch (phase_) {
    case Phase::climbing:
      climb(rate);
      break;
    case Phase::descending:
      descend(rate);
      break;
    case Phase::resting:
      rest(rate);
      break;
    case Phase::starting:
      break;
  }
  if (size() == before) return;
  restart();
  if (was == Phase::climbing) to_skip_ = std::max(before, size());  // those of a larger size are still under way
}

void RequestWindow::climb(double rate) noexcept {
  const double gain = rate / base_.rate;
  const bool may_go_on = gain >= kGain || (!is_queued_ && gain >= kFewLost);
  if (gain >= kSomeGain || may_go_on) {
    base_ = {size_, rate};
    has_climbed_ = has_moved_ = true;
    if (may_go_on) return begin_climb();
    return begin_rest();
  }
  size_ = base_.size;
  // A size that was reached from below is known to be better than the next one below.
  if (has_climbed_) return begin_rest();
  begin_descent();
}

void RequestWindow::descend(double rate) noexcept {
  if (rate >= kNoLoss * base_.rate) {
    base_.size = size_;
    has_moved_ = true;
    return begin_descent();
  }
  size_ = base_.size;
  begin_rest();
}

void RequestWindow::rest(double rate) noexcept {
  const double ratio = base_.size == size_ && base_.rate > 0 ? rate / base_.rate : 0;
  const bool is_as_before = ratio > 1 - kChange && ratio < 1 + kChange;
  base_ = {size_, is_as_before ? (base_.rate + rate) / 2 : rate};
  if (is_as_before && --rests_left_ > 0) return;
  has_climbed_ = has_moved_ = false;
  begin_climb();
}

void RequestWindow::begin_climb() noexcept {
  phase_ = Phase::climbing;
  size_ = std::min(larger(base_.size), most_);
  if (size_ > base_.size) return;
  if (has_climbed_) return begin_rest();
  begin_descent();
}

void RequestWindow::begin_descent() noexcept {
  if (!is_queued_) return begin_rest();
  phase_ = Phase::descending;
  size_ = std::max(smaller(base_.size), std::min(kLeast, most_));
  if (size_ < base_.size) return;
  size_ = base_.size;
  begin_rest();
}

void RequestWindow::begin_rest() noexcept {
  phase_ = Phase::resting;
  rests_ = has_moved_ ? 1 : std::min(2 * rests_, kRestsAtMost);
  rests_left_ = rests_;
}

// Only requests that begin later may halve it again.
void RequestWindow::halve(Clock::Time now) noexcept {
  halved_ = now;
  stalls_ = 0;
  size_ = std::max(size() / 2, std::min(kLeast, most_));
  base_ = {};
  is_queued_ = true;
  phase_ = Phase::resting;
  rests_ = rests_left_ = 1;
  restart();
}

}  // namespace damacy::http
