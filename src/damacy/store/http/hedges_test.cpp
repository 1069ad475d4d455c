#include "damacy/store/http/hedges.h"

#include <chrono>

#include <gtest/gtest.h>

namespace damacy::http {
namespace {

using std::chrono::milliseconds;

void answer(Hedges& hedges, int count, milliseconds first_byte) {
  for (int i = 0; i < count; ++i) hedges.answered(first_byte);
}

TEST(Hedges, knows_no_patience_before_32_answers) {
  Hedges hedges;
  answer(hedges, 31, milliseconds(10));
  EXPECT_FALSE(hedges.patience());
  answer(hedges, 1, milliseconds(10));
  EXPECT_EQ(hedges.patience(), milliseconds(50)) << "never less";
}

TEST(Hedges, waits_four_times_the_median_or_as_long_as_99_of_100_took) {
  Hedges hedges;
  answer(hedges, 250, milliseconds(30));
  EXPECT_EQ(hedges.patience(), milliseconds(120));
  answer(hedges, 64, milliseconds(300));
  EXPECT_EQ(hedges.patience(), milliseconds(300));
  answer(hedges, 256, milliseconds(20));
  EXPECT_EQ(hedges.patience(), milliseconds(80)) << "what was long ago does not count";
}

TEST(Hedges, one_late_answer_does_not_make_the_next_one_usual) {
  Hedges hedges;
  answer(hedges, 20, milliseconds(10));
  answer(hedges, 1, milliseconds(2000));
  answer(hedges, 20, milliseconds(10));
  EXPECT_EQ(hedges.patience(), milliseconds(50));
}

TEST(Hedges, pays_for_eight_and_then_for_one_in_fifty) {
  Hedges hedges;
  const auto paid = [&] {
    int count = 0;
    while (hedges.pay()) ++count;
    return count;
  };
  EXPECT_EQ(paid(), 8);
  answer(hedges, 400, milliseconds(10));
  EXPECT_EQ(paid(), 0);
  answer(hedges, 100, milliseconds(10));
  EXPECT_EQ(paid(), 2);
}

TEST(Hedges, pays_for_none_where_more_than_one_in_fifty_fails) {
  Hedges hedges;
  answer(hedges, 100, milliseconds(10));
  hedges.repeated(), hedges.repeated();
  EXPECT_TRUE(hedges.pay());
  hedges.repeated();
  EXPECT_FALSE(hedges.pay());
  answer(hedges, 50, milliseconds(10));
  EXPECT_TRUE(hedges.pay());
}

}  // namespace
}  // namespace damacy::http
