// What every Clock does. A new implementation joins with
//   struct MyFixture {
//     Clock& clock();
//     void pass(Clock::Time at_least);  // returns when so much time has passed
//     Clock::Time elapsed() const;      // by other means than the clock: all the time that has passed
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, ClockSuite, MyFixture);
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/clock.h"

namespace damacy {

template <class Fixture>
class ClockSuite : public ::testing::Test {
 protected:
  Clock& clock() { return fixture_.clock(); }
  void pass(Clock::Time at_least) { fixture_.pass(at_least); }
  Clock::Time elapsed() const { return fixture_.elapsed(); }

 private:
  Fixture fixture_;
};

TYPED_TEST_SUITE_P(ClockSuite);

TYPED_TEST_P(ClockSuite, counts_nanoseconds) {
  const Clock::Time outside_before = this->elapsed();
  const Clock::Time before = this->clock().now();
  this->pass(std::chrono::microseconds(5));
  const Clock::Time passed = this->clock().now() - before;
  EXPECT_GE(passed, std::chrono::microseconds(5));
  EXPECT_LE(passed, this->elapsed() - outside_before);
}

TYPED_TEST_P(ClockSuite, never_goes_back) {
  Clock::Time last = this->clock().now();
  for (int i = 0; i < 1000; ++i) {
    if (i % 100 == 0) this->pass(Clock::Time(1000 - i));
    const Clock::Time now = this->clock().now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TYPED_TEST_P(ClockSuite, is_the_same_for_all_threads) {
  std::atomic<Clock::Time> latest{this->clock().now()};
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          const Clock::Time before = latest;  // some thread has read this already
          const Clock::Time now = this->clock().now();
          if (now < before) ++wrong;
          Clock::Time seen = before;
          while (seen < now && !latest.compare_exchange_weak(seen, now)) {
          }
        }
      });
    for (int i = 0; i < 100; ++i) this->pass(Clock::Time(1));
  }
  EXPECT_EQ(wrong, 0);
}

REGISTER_TYPED_TEST_SUITE_P(ClockSuite, counts_nanoseconds, never_goes_back, is_the_same_for_all_threads);

}  // namespace damacy
