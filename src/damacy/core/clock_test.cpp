#include "damacy/core/clock.h"

#include "conformance/clock_suite.h"

namespace damacy {
namespace {

struct SteadyFixture {
  SteadyClock steady;
  Clock& clock() { return steady; }
  void pass(Clock::Time at_least) const {
    for (const Clock::Time begin = elapsed(); elapsed() - begin < at_least;) {
    }
  }
  Clock::Time elapsed() const { return std::chrono::steady_clock::now().time_since_epoch(); }
};

struct ManualFixture {
  ManualClock manual;
  Clock::Time total{0};
  Clock& clock() { return manual; }
  void pass(Clock::Time at_least) {
    manual.advance(at_least);
    total += at_least;
  }
  Clock::Time elapsed() const { return total; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Steady, ClockSuite, SteadyFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Manual, ClockSuite, ManualFixture);

TEST(ManualClock, moves_only_when_it_is_advanced) {
  ManualClock clock;
  const Clock::Time before = clock.now();
  EXPECT_EQ(clock.now(), before);
  clock.advance(std::chrono::seconds(3));
  EXPECT_EQ(clock.now() - before, std::chrono::seconds(3));
}

}  // namespace
}  // namespace damacy
