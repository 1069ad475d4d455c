#include "damacy/pipeline/explain.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

Metric busy(double ms, double out = 0) {
  return {ms, 1, 0, out, 1};
}

Observation ten_seconds() {
  Observation seen;
  seen.seconds = 10;
  seen.cores = 8;
  seen.stats.assemble = busy(100, 20e9);
  seen.stats.pop_wait_compute = busy(9000);
  return seen;
}

Config four_threads() {
  Config config;
  config.n_io_threads = 4;
  return config;
}

TEST(explain, without_a_placed_batch_there_is_nothing_to_say) {
  const Explanation out = explain(four_threads(), {});
  EXPECT_EQ(out.binds, "nothing yet");
  EXPECT_TRUE(out.stages.empty());
}

TEST(explain, decoding_threads_that_are_always_busy_bind_and_more_of_them_would_help) {
  Observation seen = ten_seconds();
  seen.stats.decompress = busy(36'000);
  const Explanation out = explain(four_threads(), seen);
  EXPECT_EQ(out.binds, "decode");
  EXPECT_NEAR(out.share, (36'000 + 100) / 40'000.0, 1e-9);
  EXPECT_DOUBLE_EQ(out.bytes_per_s, 2e9);
  EXPECT_NE(out.advice.find("n_compute_threads=4"), std::string::npos) << out.advice;
  EXPECT_NE(out.text.find("the bottleneck is decode, at 90 %"), std::string::npos) << out.text;
}

TEST(explain, slots_that_were_added_are_named_with_their_cap) {
  Observation seen = ten_seconds();
  EXPECT_EQ(explain(four_threads(), seen).text.find("keep_bytes"), std::string::npos);
  seen.stats.slots_added = 5;
  seen.stats.kept_bytes_committed = 768;
  seen.added_slots = 3;
  seen.keep_bytes = 2048;
  seen.held = 4;
  const std::string text = explain(four_threads(), seen).text;
  EXPECT_NE(text.find("It keeps batches, and holds 4 now: 3 slots are added, 768 B of at most 2.0 KiB (keep_bytes)."),
            std::string::npos)
      << text;
}

TEST(explain, with_a_thread_a_core_no_setting_helps) {
  Observation seen = ten_seconds();
  seen.cores = 4;
  seen.stats.decompress = busy(36'000);
  EXPECT_NE(explain(four_threads(), seen).advice.find("no setting"), std::string::npos);
}

TEST(explain, a_consumer_that_never_waits_binds) {
  Observation seen = ten_seconds();
  seen.stats.decompress = busy(36'000);
  seen.stats.pop_wait_compute = busy(500);
  EXPECT_EQ(explain(four_threads(), seen).binds, "consumer");
}

TEST(explain, idle_stages_and_a_waiting_consumer_are_a_matter_of_latency) {
  Observation seen = ten_seconds();
  seen.on_device = true;
  seen.stats.decompress = busy(4'000);
  const Explanation out = explain(four_threads(), seen);
  EXPECT_EQ(out.binds, "latency");
  EXPECT_NE(out.advice.find("n_batches=4"), std::string::npos) << out.advice;
}

TEST(explain, on_a_device_the_bus_is_a_stage_of_its_own) {
  Observation seen = ten_seconds();
  seen.on_device = true;
  seen.stats.h2d = busy(9'500);
  const Explanation out = explain(four_threads(), seen);
  EXPECT_EQ(out.binds, "bus");
  EXPECT_NEAR(out.share, 0.95, 1e-9);
  EXPECT_NEAR(out.stages.back().bytes_per_s, 2e9 / 0.95, 1);
}

Observation device_whose_readers_bind() {
  Observation seen = ten_seconds();
  seen.on_device = true;
  seen.readers = 4;
  seen.stats.io = busy(39'000);
  return seen;
}

TEST(explain, with_a_device_more_readers_are_advised_as_long_as_cores_are_left_to_feed_it) {
  Observation seen = device_whose_readers_bind();
  seen.cores = 16;
  Config config = four_threads();
  EXPECT_NE(explain(config, seen).advice.find("n_io_threads=11 (now 4"), std::string::npos)
      << explain(config, seen).advice;
  config.n_io_threads = 11;
  EXPECT_NE(explain(config, seen).advice.find("no setting where data are in the page cache"), std::string::npos)
      << explain(config, seen).advice;
  config.n_io_threads = 32;
  EXPECT_TRUE(explain(config, seen).advice.starts_with("no setting: 32 threads")) << explain(config, seen).advice;
}

TEST(explain, larger_buffers_are_advised_only_where_they_make_larger_waves) {
  Observation seen = ten_seconds();
  seen.on_device = true;
  seen.decoders = 3;
  seen.stats.decompress = busy(29'000, 2e9);
  seen.stats.decompress.input_bytes = 1e9;
  seen.wave_encoded = 128e6;
  seen.wave_decoded = 192e6;
  seen.larger_waves = true;
  const Config config = four_threads();
  EXPECT_NE(explain(config, seen).advice.find("host_buffer_bytes"), std::string::npos);
  seen.larger_waves = false;  // but decoded chunks have no room
  EXPECT_NE(explain(config, seen).advice.find("device_buffer_bytes=8589934592 (now 4.0 GiB)"), std::string::npos);
  EXPECT_EQ(explain(config, seen).advice.find("host_buffer_bytes"), std::string::npos);
  seen.wave_decoded = 512e6;
  EXPECT_TRUE(explain(config, seen).advice.starts_with("no setting")) << explain(config, seen).advice;
}

TEST(explain, with_a_device_small_waves_are_helped_by_more_batches) {
  Observation seen = ten_seconds();
  seen.on_device = true;
  seen.decoders = 4;
  seen.stats.decompress = busy(39'000, 3e9);
  seen.stats.decompress.input_bytes = 2e9;
  seen.wave_encoded = 100e6;
  seen.wave_decoded = 400e6;
  seen.stats.waves_emitted = 100;
  Config config = four_threads();
  EXPECT_TRUE(explain(config, seen)
                  .advice.starts_with("more batches to decode together: lookahead_batches=8 (now 2); "
                                      "waves are 20 % full"))
      << explain(config, seen).advice;
  config.lookahead_batches = 8;
  EXPECT_TRUE(explain(config, seen).advice.starts_with("no setting")) << explain(config, seen).advice;
  config.lookahead_batches = 2;
  seen.stats.waves_emitted = 20;
  EXPECT_TRUE(explain(config, seen).advice.starts_with("no setting")) << explain(config, seen).advice;
}

TEST(explain, planning_that_binds_names_the_index_cache_when_it_misses) {
  Observation seen = ten_seconds();
  seen.stats.plan = busy(9'900);
  seen.stats.shard_idx_misses = 10;
  const Explanation out = explain(four_threads(), seen);
  EXPECT_EQ(out.binds, "plan");
  EXPECT_NE(out.advice.find("n_shards_meta_cache"), std::string::npos) << out.advice;
}

TEST(explain, names_the_cache_that_would_hold_what_is_wanted_again) {
  Observation seen = ten_seconds();
  seen.stats.decompress = busy(36'000);
  seen.chunks = {.again = 0.47, .encoded_bytes = 1e9, .decoded_bytes = 2048.0 * (1 << 20), .largest_chunk_bytes = 1};
  Config config = four_threads();
  const Explanation out = explain(config, seen);
  EXPECT_NE(out.advice.find("cache_bytes=\"2356MiB\" (now 0 B): 47 % of the encoded bytes"), std::string::npos)
      << out.advice;
  EXPECT_DOUBLE_EQ(out.wanted_again, 0.47);
  config.cache_bytes = std::int64_t{1} << 30;
  EXPECT_NE(explain(config, seen).advice.find("(now 1.0 GiB)"), std::string::npos);
  config.cache_bytes = std::int64_t{2356} << 20;
  EXPECT_EQ(explain(config, seen).advice.find("cache_bytes"), std::string::npos) << explain(config, seen).advice;
}

TEST(explain, names_a_cache_before_the_settings_that_do_not_help) {
  Observation seen = ten_seconds();
  seen.cores = 4;
  seen.stats.decompress = busy(36'000);
  seen.chunks = {.again = 0.47, .encoded_bytes = 1e9, .decoded_bytes = 2048.0 * (1 << 20), .largest_chunk_bytes = 1};
  const std::string advice = explain(four_threads(), seen).advice;
  EXPECT_TRUE(advice.starts_with("cache_bytes=\"2356MiB\" (now 0 B): 47 % of")) << advice;
  EXPECT_TRUE(advice.ends_with("decoded; no other setting: 4 threads use all 4 cores")) << advice;
}

TEST(explain, a_cache_that_is_named_may_keep_the_largest_chunk) {
  Observation seen = ten_seconds();
  seen.stats.decompress = busy(36'000);
  seen.chunks = {.again = 0.9, .encoded_bytes = 1, .decoded_bytes = 64 << 20, .largest_chunk_bytes = 32 << 20};
  EXPECT_NE(explain(four_threads(), seen).advice.find("cache_bytes=\"295MiB\""), std::string::npos);
}

TEST(explain, names_no_cache_where_it_would_not_help) {
  Observation seen = ten_seconds();
  seen.chunks = {.again = 0.9, .encoded_bytes = 1e9, .decoded_bytes = 2e9, .largest_chunk_bytes = 1};
  const auto names_it = [&] { return explain(four_threads(), seen).advice.find("cache_bytes") != std::string::npos; };
  seen.stats.decompress = busy(36'000);
  EXPECT_TRUE(names_it());
  seen.has_device = true;
  EXPECT_FALSE(names_it());
  seen.has_device = false;
  seen.chunks.again = 0.05;  // nearly all chunks are new
  EXPECT_FALSE(names_it());
  seen.chunks.again = 0.9;
  seen.stats.pop_wait_compute = busy(500);  // the consumer binds
  EXPECT_FALSE(names_it());
  seen.stats.pop_wait_compute = busy(9000);
  seen.stats.decompress = {};
  seen.stats.io = busy(36'000);
  EXPECT_TRUE(names_it());
}

TEST(explain, names_the_cache_where_latency_or_planning_limits) {
  Observation seen = ten_seconds();
  seen.chunks = {.again = 0.83, .encoded_bytes = 1e9, .decoded_bytes = 2048.0 * (1 << 20), .largest_chunk_bytes = 1};
  const std::string cache = "; cache_bytes=\"2356MiB\" (now 0 B): 83 % of the encoded bytes";
  const auto advice_where = [&](std::string_view binds) {
    const Explanation out = explain(four_threads(), seen);
    EXPECT_EQ(out.binds, binds);
    return out.advice;
  };
  EXPECT_NE(advice_where("latency").find(cache), std::string::npos) << advice_where("latency");
  seen.stats.plan = busy(9'900);
  EXPECT_NE(advice_where("plan").find(cache), std::string::npos) << advice_where("plan");
  seen.stats.shard_idx_misses = 10;
  EXPECT_NE(advice_where("plan").find(cache), std::string::npos) << advice_where("plan");
  seen.chunks.again = 0.05;
  EXPECT_EQ(advice_where("plan").find("cache_bytes"), std::string::npos);
}

TEST(explain, names_the_cache_of_encoded_chunks_where_a_device_waits_for_the_bus) {
  Observation seen = ten_seconds();
  seen.has_device = seen.on_device = true;
  seen.stats.h2d = busy(9'500);
  seen.chunks = {.again = 0.9, .encoded_bytes = 1024.0 * (1 << 20), .decoded_bytes = 4e9, .largest_chunk_bytes = 1};
  Config config = four_threads();
  EXPECT_TRUE(explain(config, seen).advice.starts_with("device_cache_bytes=\"1178MiB\" (now 0 B): 90 %"))
      << explain(config, seen).advice;
  config.device_cache_bytes = std::int64_t{1178} << 20;
  EXPECT_TRUE(explain(config, seen).advice.starts_with("no setting: it carries")) << explain(config, seen).advice;
  config.device_cache_bytes = 0;
  seen.stats.h2d = {};
  seen.stats.decompress = busy(39'000);  // the device decodes as fast as it can
  EXPECT_EQ(explain(config, seen).advice.find("device_cache_bytes"), std::string::npos);
}

}  // namespace
}  // namespace damacy
