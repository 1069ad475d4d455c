#include "damacy/core/latch.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>

#include <gtest/gtest.h>

namespace damacy {
namespace {

using std::chrono::milliseconds;

TEST(Latch, is_closed_until_it_is_opened_and_open_forever) {
  Latch latch;
  EXPECT_FALSE(latch.is_open());
  EXPECT_FALSE(latch.wait_for(milliseconds(0)));
  latch.open();
  EXPECT_TRUE(latch.is_open());
  EXPECT_TRUE(latch.wait_for(milliseconds(0)));
  EXPECT_TRUE(latch.wait({}));
  latch.open();
  EXPECT_TRUE(latch.is_open());
}

TEST(Latch, a_stop_ends_the_wait_for_one_that_is_closed) {
  Latch latch;
  std::stop_source stopping;
  const std::jthread stops([&] { stopping.request_stop(); });
  EXPECT_FALSE(latch.wait(stopping.get_token()));
  latch.open();
  EXPECT_TRUE(latch.wait(stopping.get_token()));
}

TEST(Latch, all_that_wait_see_what_was_written_before_it_opened) {
  Latch latch;
  int written = 0, seen = 0, seen_later = 0;
  {
    const std::jthread waits([&] {
      if (latch.wait({})) seen = written;
    });
    const std::jthread polls([&] {
      while (!latch.wait_for(milliseconds(20))) {
      }
      seen_later = written;
    });
    written = 7;
    latch.open();
  }
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(seen_later, 7);
}

TEST(Latch, a_thread_that_waited_may_destroy_it) {
  for (int i = 0; i < 200; ++i) {
    auto latch = std::make_optional<Latch>();
    const std::jthread opens([&, raw = &*latch] { raw->open(); });
    ASSERT_TRUE(latch->wait({}));
    latch.reset();
  }
}

}  // namespace
}  // namespace damacy
