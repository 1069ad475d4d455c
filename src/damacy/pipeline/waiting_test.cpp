// What a caller does while it waits for batches: as little as possible.
#include <chrono>

#include <gtest/gtest.h>

#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;
using testing::write_array;

constexpr int kBatches = 300;

// Most notifications are for other threads. A handler of signals takes the lock of Python's interpreter, so it must not
// run for each of them.
TEST(Waiting, runs_the_handler_of_signals_at_most_twenty_times_a_second) {
  const TempDir dir("waiting");
  write_array(dir.path() / "a.zarr", {64, 64}, {8, 8});
  Config config;
  config.batch_size = 2;
  config.device = {DeviceChoice::Kind::cpu};
  config.host_buffer_bytes = config.device_buffer_bytes = 1 << 20;
  std::int64_t calls = 0;
  PipelineEnvironment around;
  around.while_waiting = [&] { ++calls; };
  Pipeline pipeline(config, around);
  std::vector<Sample> samples(2 * kBatches);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i % 8) * 8;
    samples[i].uri = (dir.path() / "a.zarr").string();
    samples[i].aabb = {{at, at + 8}, {0, 8}};
  }
  const auto begin = std::chrono::steady_clock::now();
  pipeline.push(samples);
  for (int n = 0; n < kBatches; ++n) EXPECT_EQ(pipeline.pop().info("").shape[0], 2);
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(calls, waited / std::chrono::milliseconds(50));
}

}  // namespace
}  // namespace damacy
