#include "damacy/store/http/repeats.h"

#include <gtest/gtest.h>

namespace damacy::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct FixedChance final : Chance {
  explicit FixedChance(double always) : value(always) {}
  double next() noexcept override { return value; }
  double value;
};

Failure failure(const char* reason, bool is_broken = false) {
  return {reason, "text", true, Once::no, false, is_broken};
}

constexpr Clock::Time kStart = seconds(1000);

TEST(Repeats, pause_twice_as_long_each_time_up_to_20_s) {
  FixedChance half(0.5);
  Pace pace;
  Repeats repeats(20, kStart, kStart + seconds(1000), half);
  for (const int ms : {50, 100, 200, 400, 800, 1600, 3200, 6400, 10'000, 10'000})
    EXPECT_EQ(repeats.after(failure("http"), {}, kStart, pace), milliseconds(ms));
}

TEST(Repeats, of_a_throttled_request_begin_with_a_second) {
  FixedChance half(0.5);
  Pace pace;
  Repeats repeats(4, kStart, kStart + seconds(1000), half);
  EXPECT_EQ(repeats.after(failure("throttled"), {}, kStart, pace), milliseconds(500));
  EXPECT_EQ(repeats.after(failure("throttled"), {}, kStart, pace), milliseconds(1000));
  EXPECT_EQ(repeats.after(failure("http"), {}, kStart, pace), milliseconds(200));
  EXPECT_FALSE(repeats.after(failure("http"), {}, kStart, pace));
  EXPECT_EQ(repeats.attempts(), 4);
}

TEST(Repeats, pause_anywhere_from_nothing_to_the_longest) {
  Pace pace;
  FixedChance least(0), most(0.999);
  EXPECT_EQ(Repeats(6, kStart, kStart + seconds(60), least).after(failure("http"), {}, kStart, pace), seconds(0));
  EXPECT_GT(Repeats(6, kStart, kStart + seconds(60), most).after(failure("http"), {}, kStart, pace), milliseconds(99));
}

TEST(Repeats, wait_as_long_as_the_server_says_and_so_does_its_origin) {
  FixedChance half(0.5);
  Pace pace;
  Repeats repeats(6, kStart, kStart + seconds(60), half);
  EXPECT_EQ(repeats.after(failure("throttled"), 7, kStart, pace), seconds(7));
  EXPECT_EQ(pace.held_until(), kStart + seconds(7));
  EXPECT_EQ(repeats.after(failure("throttled"), 1, kStart + seconds(1), pace), seconds(1));
  EXPECT_EQ(pace.held_until(), kStart + seconds(7));
  EXPECT_FALSE(repeats.after(failure("throttled"), 60, kStart + seconds(2), pace)) << "past the deadline";
}

TEST(Repeats, of_broken_connections_go_on_for_10_s_whatever_the_attempts) {
  FixedChance none(0);
  Pace pace;
  Repeats repeats(1, kStart, kStart + seconds(60), none);
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(repeats.after(failure("io", true), {}, kStart + milliseconds(199 * i), pace)) << i;
  EXPECT_FALSE(repeats.after(failure("io", true), {}, kStart + seconds(10), pace));
  FixedChance most(0.999);
  Repeats last(1, kStart, kStart + seconds(60), most);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(last.after(failure("io", true), {}, kStart, pace));
  EXPECT_EQ(last.after(failure("io", true), {}, kStart + seconds(9), pace), seconds(1)) << "not past the ten seconds";
  Repeats other(1, kStart, kStart + seconds(60), none);
  EXPECT_FALSE(other.after(failure("io", false), {}, kStart, pace));
}

TEST(Repeats, ask_only_once_more_where_more_would_not_help) {
  FixedChance none(0);
  Pace pace;
  Repeats repeats(6, kStart, kStart + seconds(60), none);
  const Failure misfit{"range", "text", true, Once::misfit};
  EXPECT_TRUE(repeats.after(misfit, {}, kStart, pace));
  EXPECT_FALSE(repeats.after(misfit, {}, kStart, pace));
  Repeats others(20, kStart, kStart + seconds(60), none);
  for (const Once each : {Once::misfit, Once::region, Once::clock, Once::credentials}) {
    EXPECT_TRUE(others.after({"denied", "text", true, each}, {}, kStart, pace)) << "another thing was put right";
    EXPECT_FALSE(others.after({"denied", "text", true, each}, {}, kStart, pace));
  }
  EXPECT_FALSE(Repeats(6, kStart, kStart + seconds(60), none).after({"denied", "text", false}, {}, kStart, pace));
  EXPECT_FALSE(Repeats(6, kStart, kStart, none).after(failure("http"), {}, kStart, pace)) << "at the deadline";
}

TEST(Pace, has_100_repeats_and_earns_one_with_ten_answers) {
  Pace pace;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(pace.pay(kStart, false)) << i;
  EXPECT_FALSE(pace.pay(kStart, false));
  for (int i = 0; i < 9; ++i) pace.succeeded();
  EXPECT_FALSE(pace.pay(kStart, false));
  pace.succeeded();
  EXPECT_TRUE(pace.pay(kStart, false));
  EXPECT_FALSE(pace.pay(kStart, false));
}

TEST(Pace, counts_connections_that_broke_within_100_ms_as_one) {
  Pace pace;
  for (int i = 0; i < 99; ++i) EXPECT_TRUE(pace.pay(kStart, false));
  for (int i = 0; i < 256; ++i) EXPECT_TRUE(pace.pay(kStart, true)) << i;
  EXPECT_TRUE(pace.pay(kStart + milliseconds(99), true));
  EXPECT_FALSE(pace.pay(kStart + milliseconds(100), true));
}

TEST(Pace, belongs_to_scheme_host_and_port) {
  EXPECT_EQ(pace_of("http://pace.test:1/a"), pace_of("http://pace.test:1/b?c"));
  EXPECT_EQ(pace_of("http://pace.test:1"), pace_of("http://pace.test:1?c=/"));
  EXPECT_NE(pace_of("http://pace.test:1/a"), pace_of("http://pace.test:2/a"));
  EXPECT_NE(pace_of("http://pace.test:1/a"), pace_of("https://pace.test:1/a"));
}

}  // namespace
}  // namespace damacy::http
