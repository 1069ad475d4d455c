// How many requests to one origin may be under way: as many as pay. Climbs while more requests bring more bytes or wait
// no longer for their first bytes, and descends while fewer bring as many. Knows the ends of requests and the time,
// which are given; not requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "damacy/core/clock.h"

namespace damacy::http {

class RequestWindow {
 public:
  static constexpr std::size_t kStart = 32, kLeast = 8;

  // `most` is the bound from now on; below kLeast it is also the lower bound.
  void set_most(std::size_t most) noexcept { most_ = most == 0 ? 1 : most; }
  [[nodiscard]] std::size_t size() const noexcept;

  enum class How {
    answered,
    refused,  // 429, 503, or no connection
    stalled,  // the server was silent for too long
    other,
  };
  struct End {
    How how = How::answered;
    std::uint64_t bytes = 0;
    Clock::Time began{};       // of the request
    bool all_used = false;     // size() requests were under way until now
    Clock::Time first_byte{};  // since it was sent; 0: unknown
  };
  // Times never go back.
  void ended(Clock::Time now, const End& end) noexcept;

 private:
  enum class Phase { starting, climbing, descending, resting };
  // A number of requests and what came a second, in bytes, with a share for each answer.
  struct Level {
    std::size_t size = 0;
    double rate = 0;
  };

  std::optional<double> measured(Clock::Time now, const End& end) noexcept;
  void start_up(const End& end) noexcept;
  void add_in_time() noexcept;
  void note_least(Clock::Time now, Clock::Time first_byte) noexcept;
  [[nodiscard]] bool has_queue() const noexcept;
  void restart() noexcept;
  void decide(double rate) noexcept;
  void climb(double rate) noexcept;
  void descend(double rate) noexcept;
  void rest(double rate) noexcept;
  void begin_climb() noexcept;
  void begin_descent() noexcept;
  void begin_rest() noexcept;
  void halve(Clock::Time now) noexcept;

  std::size_t most_ = kStart, size_ = kStart;
  Phase phase_ = Phase::starting;
  Level base_;  // what the present size is compared with
  bool has_climbed_ = false, has_moved_ = false;
  int rests_ = 1, rests_left_ = 1;

  // The measurement of the present size.
  std::size_t to_skip_ = kStart;  // answers to requests of the size before
  std::size_t answers_ = 0;
  double work_ = 0;
  Clock::Time time_{};
  Clock::Time first_bytes_{};  // their sum
  std::size_t first_byte_count_ = 0;
  bool is_queued_ = true;  // in the last measurement requests waited for each other

  // While starting: first bytes of a turn, which is as many answers as may be under way.
  struct Turn {
    std::size_t size = kStart;
    std::size_t most = 3 * kStart, for_each = 2;  // what the window grows to, and by an answer
    std::size_t answers = 0;
    double sum = 0, least = std::numeric_limits<double>::max();
  };
  Turn turn_;
  std::size_t in_time_ = 0;  // answers

  // The least time until a first byte, of this while and of the one before.
  Clock::Time least_ = Clock::Time::max(), least_before_ = Clock::Time::max(), least_since_{};
  std::optional<Clock::Time> last_end_;  // of a request

  std::optional<Clock::Time> halved_;
  int stalls_ = 0;
};

}  // namespace damacy::http
