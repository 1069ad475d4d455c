#include "damacy/pipeline/network_load.h"

#include <gtest/gtest.h>

#include "damacy/pipeline/explain.h"

namespace damacy {
namespace {

// Ten seconds in which `under_way` of 256 requests were under way, on average, and waited for `part` of their time.
Observation ten_seconds(double under_way, double part) {
  Observation seen;
  seen.seconds = 10;
  seen.cores = 8;
  seen.stats.assemble = {100, 1, 0, 20e9, 1};
  seen.stats.decompress.input_bytes = 1e9;
  seen.stats.pop_wait_io = {9000, 1, 0, 0, 1};
  seen.network.requests = 1000;
  seen.network.most = 256;
  seen.network.body_bytes = 1'120'000'000;
  seen.network.request_ms = under_way * 10'000;
  seen.network.first_byte_ms = part * seen.network.request_ms;
  seen.network.median_ms = 23;
  seen.network.p99_ms = 180;
  seen.network.repeated = 4;
  return seen;
}

TEST(NetworkLoad, says_what_the_network_did) {
  const Observation seen = ten_seconds(96, 0.5);
  EXPECT_EQ(network_text(seen.network, seen.seconds, seen.stats),
            "network: 112 MB/s; 96 of 256 requests; first byte 23 ms (p99 180 ms); 0.4 % repeated; 1.12 bytes per "
            "wanted byte");
  EXPECT_NE(explain({}, seen).text.find("network: 112 MB/s"), std::string::npos);
}

TEST(NetworkLoad, without_requests_explain_does_not_speak_of_a_network) {
  Observation seen = ten_seconds(0, 0);
  seen.network = {};
  const Explanation out = explain({}, seen);
  EXPECT_EQ(out.binds, "latency");
  EXPECT_EQ(out.text.find("network"), std::string::npos);
  EXPECT_EQ(out.stages.back().name, "place");
}

TEST(NetworkLoad, requests_that_mostly_wait_are_latency_and_the_advice_names_the_limit) {
  const Config config;
  Explanation out = explain(config, ten_seconds(200, 0.9));
  EXPECT_EQ(out.binds, "latency");
  EXPECT_EQ(out.advice, "more requests under way: StoreOptions(max_requests=512) (now 256)");
  EXPECT_NE(out.text.find("remote stores bind: requests wait for their first byte"), std::string::npos) << out.text;
  out = explain(config, ten_seconds(20, 0.9));
  EXPECT_EQ(out.binds, "latency");
  EXPECT_NE(out.advice.find("host_buffer_bytes=2147483648 (now 1.0 GiB)"), std::string::npos) << out.advice;
}

TEST(NetworkLoad, requests_that_wait_although_no_more_of_them_would_pay_are_limited_by_the_network) {
  Observation seen = ten_seconds(20, 0.9);
  seen.network.allowed = 25;
  const Explanation out = explain({}, seen);
  EXPECT_EQ(out.binds, "network");
  EXPECT_EQ(out.advice, "no setting: more than 25 requests under way bring no more bytes");
}

TEST(NetworkLoad, requests_whose_bytes_come_slowly_are_limited_by_the_rate) {
  const Explanation out = explain({}, ten_seconds(20, 0.2));
  EXPECT_EQ(out.binds, "network");
  EXPECT_EQ(out.stages.back().name, "network");
  EXPECT_NEAR(out.stages.back().busy, 20.0 / 256, 1e-9);
}

TEST(NetworkLoad, a_server_that_refuses_requests_is_the_limit) {
  Observation seen = ten_seconds(20, 0.9);
  seen.network.throttled = 21;
  const Explanation out = explain({}, seen);
  EXPECT_EQ(out.binds, "server");
  EXPECT_NE(out.advice.find("21 of 1000 requests"), std::string::npos) << out.advice;
  seen.network.throttled = 20;
  EXPECT_EQ(explain({}, seen).binds, "latency");
}

TEST(NetworkLoad, a_network_that_is_hardly_used_or_waited_for_does_not_bind) {
  Observation seen = ten_seconds(0.4, 0.9);
  seen.stats.decompress.ms = 80'000;
  EXPECT_EQ(explain({}, seen).binds, "decode");
  seen = ten_seconds(200, 0.9);
  seen.stats.pop_wait_io.ms = 100;
  EXPECT_EQ(explain({}, seen).binds, "consumer");
}

}  // namespace
}  // namespace damacy
