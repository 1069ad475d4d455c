#include "damacy/halo/in_flight.h"

#include <gtest/gtest.h>

#include "damacy/halo/spec.h"
#include "support/error_of.h"

namespace damacy::halo {
namespace {

TEST(InFlight, a_slot_is_used_again_when_its_exchange_is_finished) {
  InFlight flights(2);
  EXPECT_EQ(flights.next(), 0);
  flights.send(0);
  EXPECT_EQ(flights.next(), 1);
  flights.send(1);
  EXPECT_EQ(error_of([&] { (void)flights.next(); }).message(),
            "2 exchanges are in flight already: finish one, or pass a larger depth");
  EXPECT_TRUE(flights.is_oldest(0));
  EXPECT_FALSE(flights.is_oldest(1));
  flights.finish(0);
  EXPECT_TRUE(flights.is_oldest(1));
  EXPECT_EQ(flights.next(), 0);
}

TEST(InFlight, a_retry_uses_the_slot_of_the_exchange_that_failed) {
  InFlight flights(3);
  flights.send(0);
  flights.post(1);
  flights.finish(0);
  EXPECT_EQ(flights.next(), 1);
  flights.send(1);
  EXPECT_EQ(flights.next(), 0);
}

TEST(InFlight, refusals_say_why) {
  InFlight flights(1);
  flights.check();
  flights.refuse_after("the network is down");
  EXPECT_EQ(error_of([&] { (void)flights.next(); }).message(),
            "an exchange failed half way (the network is down); close this exchanger and make another one");
  flights.close();
  EXPECT_EQ(error_of([&] { flights.check(); }).message(), "this exchanger is closed");
  EXPECT_EQ(error_of([] { InFlight none(0); }).message(), "depth 0");
}

TEST(MessageNumbers, a_retry_keeps_its_number_and_phases_count_by_themselves) {
  MessageNumbers numbers;
  numbers.post(0, 0);
  numbers.post(0, 0);
  EXPECT_EQ(numbers.of(0, 0), 0);
  numbers.send(0);
  numbers.post(1, 0);
  numbers.post(0, 1);
  EXPECT_EQ(numbers.of(1, 0), 1);
  EXPECT_EQ(numbers.of(0, 0), 0);
  EXPECT_EQ(numbers.of(0, 1), 0);
}

}  // namespace
}  // namespace damacy::halo
