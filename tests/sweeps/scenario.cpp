#include "sweeps/scenario.h"

#include <chrono>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/device/dlpack_abi.h"
#include "sweeps/driver.h"
#include "sweeps/failing_new.h"

namespace damacy::testing {
namespace {

Config small(std::int64_t batch_size, std::int64_t n_batches = 2, OnError on_error = OnError::raise) {
  Config config;
  config.batch_size = batch_size;
  config.n_batches = n_batches;
  config.on_error = on_error;
  config.dtype = Dtype::u16;
  config.host_buffer_bytes = config.device_buffer_bytes = 256 << 10;
  config.n_io_threads = 2;
  config.device.kind = DeviceChoice::Kind::cpu;
  return config;
}

void stream_all(const World& world, Outcome& outcome, const Config& config, std::string_view array,
                std::int64_t count) {
  Driver driver(world, config, outcome);
  driver.push(count, array);
  driver.flush();
  driver.drain();
  driver.expect_complete();
}

std::vector<Scenario> make_scenarios() {
  std::vector<Scenario> all;
  const auto add = [&](std::string name, auto run) { all.push_back({std::move(name), run}); };
  add("construct and close", [](const World& w, Outcome& o) { Driver driver(w, small(2), o); });
  add("push and close", [](const World& w, Outcome& o) { Driver(w, small(2), o).push(12); });
  add("zstd chunks", [](const World& w, Outcome& o) { stream_all(w, o, small(2), "a.zarr", 12); });
  add("shards", [](const World& w, Outcome& o) { stream_all(w, o, small(3), "s.zarr", 12); });
  add("a short batch", [](const World& w, Outcome& o) { stream_all(w, o, small(5), "s.zarr", 12); });
  add("one slot", [](const World& w, Outcome& o) { stream_all(w, o, small(2, 1), "a.zarr", 8); });
  add("skip", [](const World& w, Outcome& o) { stream_all(w, o, small(2, 2, OnError::skip), "a.zarr", 10); });
  add("fill", [](const World& w, Outcome& o) { stream_all(w, o, small(2, 2, OnError::fill), "s.zarr", 10); });
  add("both arrays, turn by turn", [](const World& w, Outcome& o) {
    Driver driver(w, small(3), o);
    for (int i = 0; i < 4; ++i) driver.push(3, i % 2 == 0 ? "a.zarr" : "s.zarr");
    driver.drain();
    driver.expect_complete();
  });
  add("push, flush and pop in turn", [](const World& w, Outcome& o) {
    Driver driver(w, small(2), o);
    for (int i = 0; i < 3; ++i) {
      driver.push(3);
      driver.flush();
      driver.pop();
    }
    driver.drain();
    driver.expect_complete();
  });
  add("held batches", [](const World& w, Outcome& o) {
    Driver driver(w, small(2, 3), o);
    driver.push(14);
    for (int i = 0; i < 4; ++i) driver.pop(/*hold=*/true);
    driver.release_held();
    driver.drain();
    driver.expect_complete();
  });
  add("batches kept in added slots", [](const World& w, Outcome& o) {
    Config config = small(2, 2);
    config.keep_bytes = 4096;
    Driver driver(w, config, o);
    driver.push(24);
    for (int i = 0; i < 8; ++i) driver.pop(/*hold=*/true);
    driver.release_held();
    driver.drain();
    driver.expect_complete();
  });
  add("kept chunks", [](const World& w, Outcome& o) {
    Config config = small(2);
    (w.device ? config.device_cache_bytes : config.cache_bytes) = 64 << 10;
    if (w.device) config.host_cache_bytes = 64 << 10;
    stream_all(w, o, config, "a.zarr", 24);
  });
  add("close with batches held and in production", [](const World& w, Outcome& o) {
    Driver driver(w, small(2, 3), o);
    driver.push(14, "s.zarr");
    driver.pop(true);
    if (driver.alive()) driver.pipeline().close();
    driver.release_held();
  });
  add("tensors", [](const World& w, Outcome& o) {
    Driver driver(w, small(2, 2), o);
    driver.push(4);
    if (!driver.alive()) return;
    try {
      Batch batch = driver.pipeline().pop(std::chrono::seconds(20));
      auto* tensor = batch.to_dlpack();
      batch.release();
      tensor->deleter(tensor);
    } catch (const Error&) {
    }
  });
  add("a refused sample", [](const World& w, Outcome& o) {
    Driver driver(w, small(2), o);
    driver.push(2);
    if (driver.alive()) {
      try {
        std::vector<Sample> beyond;
        {
          const Spared spared;
          beyond.push_back({"a.zarr", {{0, 5}, {60, 80}}});
        }
        driver.pipeline().push(std::move(beyond));
      } catch (const Error&) {
        o.refused = true;
      }
    }
    driver.push(4);
    driver.drain();
    driver.expect_complete();
  });
  add("an array that is not there", [](const World& w, Outcome& o) {
    Driver driver(w, small(2), o);
    driver.push(3, "a.zarr");
    driver.push(1, "none.zarr");
    driver.drain();
    driver.expect_complete();
  });
  return all;
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = make_scenarios();
  return all;
}

}  // namespace damacy::testing
