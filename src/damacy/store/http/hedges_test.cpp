#include "damacy/store/http/hedges.h"

#include <chrono>

#include <gtest/gtest.h>

namespace damacy::http {
namespace {

using std::chrono::milliseconds;

void answer(Hedges& hedges, int count, milliseconds first_byte) {
  for (int i = 0; i < count; ++i) hedges.answered(first_byte);
}

TEST(Hedges, knows_no_patience_before_8_answers_and_has_much_before_32) {
  Hedges hedges;
  answer(hedges, 7, milliseconds(10));
  EXPECT_FALSE(hedges.patience());
  answer(hedges, 1, milliseconds(10));
  EXPECT_EQ(hedges.patience(), milliseconds(200));
  answer(hedges, 23, milliseconds(30));
  EXPECT_EQ(hedges.patience(), milliseconds(240)) << "eight times the median";
  answer(hedges, 1, milliseconds(30));
  EXPECT_EQ(hedges.patience(), milliseconds(90)) << "from 32 on it is found again";
}

TEST(Hedges, waits_three_times_the_median_or_as_long_as_31_of_32_took) {
  Hedges hedges;
  answer(hedges, 250, milliseconds(30));
  EXPECT_EQ(hedges.patience(), milliseconds(90));
  answer(hedges, 64, milliseconds(300));
  EXPECT_EQ(hedges.patience(), milliseconds(300));
  answer(hedges, 256, milliseconds(20));
  EXPECT_EQ(hedges.patience(), milliseconds(60)) << "what was long ago does not count";
  answer(hedges, 256, milliseconds(1));
  EXPECT_EQ(hedges.patience(), milliseconds(30)) << "never less";
}

TEST(Hedges, late_answers_do_not_make_the_next_ones_usual) {
  Hedges hedges;
  answer(hedges, 7, milliseconds(10));
  answer(hedges, 1, milliseconds(2000));
  EXPECT_EQ(hedges.patience(), milliseconds(200));
  answer(hedges, 32, milliseconds(10));
  EXPECT_EQ(hedges.patience(), milliseconds(30));
  answer(hedges, 209, milliseconds(10));
  answer(hedges, 7, milliseconds(2000));  // with the first a 32nd of what is known
  EXPECT_EQ(hedges.patience(), milliseconds(30));
  answer(hedges, 8, milliseconds(2000));
  answer(hedges, 16, milliseconds(10));
  EXPECT_EQ(hedges.patience(), milliseconds(2000)) << "but many do";
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
