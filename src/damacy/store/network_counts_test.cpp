#include "damacy/store/network_counts.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr NetworkCounts::Time kBegin{};

void request(NetworkCounts& counts, microseconds first_byte, NetworkCounts::End end = {}) {
  counts.began(256, 32);
  end.began = kBegin;
  end.first_byte = first_byte;
  counts.ended(kBegin + milliseconds(100), end);
}

TEST(NetworkCounts, are_sums_of_what_requests_came_to) {
  NetworkCounts counts;
  request(counts, microseconds(20'000), {.body_bytes = 100, .connections = 1});
  request(counts, microseconds(10'000), {.body_bytes = 11, .is_throttled = true});
  request(counts, microseconds(-1));
  counts.repeated();
  counts.revalidated();
  counts.began(64, 40);
  const NetworkCounts::Seen seen = counts.seen();
  EXPECT_EQ(seen.requests, 4);
  EXPECT_EQ(seen.under_way, 1);
  EXPECT_EQ(seen.most, 256);
  EXPECT_EQ(seen.allowed, 40);
  EXPECT_EQ(seen.repeated, 1);
  EXPECT_EQ(seen.revalidated, 1);
  EXPECT_EQ(seen.throttled, 1);
  EXPECT_EQ(seen.connections, 1);
  EXPECT_EQ(seen.body_bytes, 111);
  EXPECT_DOUBLE_EQ(seen.request_ms, 300);
  EXPECT_EQ(seen.first_bytes, 2);
  EXPECT_DOUBLE_EQ(seen.first_byte_ms, 30);
  EXPECT_DOUBLE_EQ(seen.best_first_byte_ms, 10);
}

TEST(NetworkCounts, quantiles_are_those_of_the_first_bytes_within_a_tenth) {
  NetworkCounts counts;
  EXPECT_EQ(counts.seen().p99_ms, 0);
  for (int i = 0; i < 97; ++i) request(counts, milliseconds(20));
  for (int i = 0; i < 3; ++i) request(counts, milliseconds(700));
  EXPECT_NEAR(counts.seen().median_ms, 20, 2);
  EXPECT_NEAR(counts.seen().p99_ms, 700, 70);
  request(counts, microseconds(0));
  request(counts, std::chrono::hours(24));  // the ends of the scale
  EXPECT_EQ(counts.seen().first_bytes, 102);
}

TEST(NetworkCounts, what_is_under_way_stays_so_after_a_reset) {
  NetworkCounts counts;
  counts.began(8, 8);
  request(counts, milliseconds(1));
  counts.reset();
  EXPECT_EQ(counts.seen().requests, 0);
  EXPECT_EQ(counts.seen().first_bytes, 0);
  EXPECT_EQ(counts.seen().under_way, 1);
  counts.ended(kBegin, {.began = kBegin});
  EXPECT_EQ(counts.seen().under_way, 0);
}

}  // namespace
}  // namespace damacy
