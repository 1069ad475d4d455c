// Batches from kept chunks: equal to those of a pipeline that keeps none, with eviction and several threads, on the
// host and on a device.
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;
using testing::write_array;

constexpr std::int64_t kRows = 60, kColumns = 80;

class KeptChunks : public ::testing::Test {
 protected:
  KeptChunks() { write_array(path(), {kRows, kColumns}, {6, 8}); }
  std::string path(const char* name = "a.zarr") const { return (dir_.path() / name).string(); }
  Config config(std::int64_t cache_bytes) const {
    Config config;
    config.batch_size = 4;
    config.host_buffer_bytes = config.device_buffer_bytes = buffer_bytes_;
    config.n_io_threads = 4;
    config.n_batches = 3;
    config.lookahead_batches = 3;
    config.cache_bytes = cache_bytes;
    return config;
  }
  std::vector<Sample> samples(std::size_t count, const char* name = "a.zarr") const {
    std::mt19937 random{5};
    std::vector<Sample> all(count);
    for (Sample& sample : all) {
      const auto y = static_cast<std::int64_t>(random() % (kRows - 20)),
                 x = static_cast<std::int64_t>(random() % (kColumns - 20));
      sample.uri = path(name);
      sample.aabb = {{y, y + 20}, {x, x + 20}};
    }
    return all;
  }
  std::vector<std::vector<float>> batches(Pipeline& pipeline, std::size_t count, const char* name = "a.zarr") const {
    pipeline.push(std::make_shared<VectorSource>(samples(4 * count, name)));
    std::vector<std::vector<float>> all;
    for (std::size_t n = 0; n < count; ++n) {
      const Batch batch = pipeline.pop();
      const auto values = batch.view<float>("");
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }

  const TempDir dir_{"kept-chunks"};
  std::int64_t buffer_bytes_ = 1 << 20;
};

TEST_F(KeptChunks, give_the_batches_of_a_pipeline_that_keeps_none) {
  Pipeline plain(config(0));
  const auto expected = batches(plain, 60);
  for (const std::int64_t cache_bytes : {1 << 20, 12 << 10, 1}) {
    Pipeline pipeline(config(cache_bytes));
    EXPECT_EQ(batches(pipeline, 60), expected) << cache_bytes;
    EXPECT_EQ(batches(pipeline, 60), expected) << cache_bytes << ", again";
    const Stats stats = pipeline.stats();
    EXPECT_GT(stats.cache_hits + stats.cache_misses, 0);
    if (cache_bytes == 1 << 20) {
      EXPECT_GT(stats.cache_hits, stats.cache_misses);
      EXPECT_LE(stats.cache_kept, 100);  // each chunk once
    }
    if (cache_bytes == 1) {
      EXPECT_EQ(stats.cache_kept, 0);
    }
  }
}

TEST_F(KeptChunks, of_an_object_that_was_replaced_are_not_used) {
  Pipeline pipeline(config(1 << 20));
  const auto first_element = [&] {
    Sample sample;
    sample.uri = path();
    sample.aabb = {{0, 20}, {0, 20}};
    pipeline.push(std::make_shared<VectorSource>(std::vector<Sample>(4, sample)));
    return pipeline.pop().view<float>("")[0];
  };
  EXPECT_EQ(first_element(), 0);
  EXPECT_EQ(first_element(), 0);
  EXPECT_GT(pipeline.stats().cache_hits, 0);
  const std::filesystem::path chunk = dir_.path() / "a.zarr" / "c.0.0";
  const std::vector<std::uint16_t> elements(48, 1234);
  std::filesystem::remove(chunk);
  std::ofstream(chunk, std::ios::binary)
      .write(reinterpret_cast<const char*>(elements.data()), static_cast<std::streamsize>(elements.size() * 2));
  std::optional<float> found;
  for (int attempt = 0; attempt < 3 && !found; ++attempt) {
    try {
      found = first_element();
    } catch (const Error& error) {
      EXPECT_EQ(error.where().reason, "changed") << error.what();
    }
  }
  EXPECT_EQ(found, 1234);
}

TEST_F(KeptChunks, are_refused_where_chunks_go_through_a_device) {
  PipelineEnvironment around;
  around.device = make_host_device({HostOrder::Kind::lazy});
  try {
    Pipeline pipeline(config(1 << 20), around);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::inval);
    EXPECT_NE(std::string(error.what()).find("cache_bytes"), std::string::npos) << error.what();
  }
}

TEST_F(KeptChunks, on_a_device_are_refused_where_there_is_none) {
  Config wanted = config(0);
  wanted.device = {DeviceChoice::Kind::cpu};
  wanted.device_cache_bytes = 1 << 20;
  try {
    Pipeline pipeline(wanted);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::inval);
    EXPECT_NE(std::string(error.what()).find("device_cache_bytes is for batches on a GPU: cache_bytes"),
              std::string::npos)
        << error.what();
  }
}

// A name that no other test uses at the same time.
std::string shared_name() {
  return "kept-chunks-test-" + std::to_string(::getpid());
}

Config sharing(Config config, std::int64_t bytes = 4 << 20) {
  config.shared_cache = shared_name();
  config.shared_cache_bytes = bytes;
  return config;
}

// Of the same process, so that what is shared is the memory; tests/end_to_end/test_shared_cache.py has processes.
TEST_F(KeptChunks, in_shared_memory_are_read_by_one_pipeline_and_used_by_all) {
  for (const bool compressed : {false, true}) {
    if (compressed) testing::compress_chunks(path());
    Pipeline plain(config(0));
    const auto expected = batches(plain, 60);
    Pipeline first(sharing(config(0))), second(sharing(config(0)));
    EXPECT_EQ(batches(first, 60), expected);
    EXPECT_GT(first.stats().host_cache_kept, 0);
    EXPECT_EQ(batches(second, 60), expected);
    const Stats stats = second.stats();
    EXPECT_EQ(stats.bytes_read, 0);
    EXPECT_EQ(stats.host_cache_misses, 0);
    EXPECT_GT(stats.host_cache_hits, 0);
    Pipeline both(sharing(config(1 << 20)));
    EXPECT_EQ(batches(both, 60), expected);
    EXPECT_EQ(both.stats().bytes_read, 0);
    EXPECT_EQ(both.stats().host_cache_hits, both.stats().cache_misses);
  }
}

TEST_F(KeptChunks, in_shared_memory_that_is_full_make_room_for_each_other) {
  const char* const names[] = {"a.zarr", "b.zarr", "c.zarr"};
  write_array(path("b.zarr"), {kRows, kColumns}, {6, 8});
  write_array(path("c.zarr"), {kRows, kColumns}, {6, 8});
  Pipeline plain(config(0));
  const auto expected = batches(plain, 60);  // all hold the same elements
  // So many entries are too few for a set.
  Pipeline first(sharing(config(0), 1 << 20)), second(sharing(config(0), 1 << 20));
  for (int round = 0; round < 3; ++round)
    for (const char* const name : names) {
      EXPECT_EQ(batches(first, 60, name), expected) << name << round;
      EXPECT_EQ(batches(second, 60, name), expected) << name << round;
    }
  EXPECT_GT(first.stats().host_cache_evicted + second.stats().host_cache_evicted, 10);
  EXPECT_GT(second.stats().host_cache_hits, 10);
}

TEST_F(KeptChunks, in_shared_memory_have_one_size) {
  const Pipeline first(sharing(config(0)));
  try {
    Pipeline second(sharing(config(0), 8 << 20));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::inval);
    EXPECT_NE(std::string(error.what()).find("has 4194304 bytes, and 8388608 were asked for"), std::string::npos)
        << error.what();
  }
}

struct DeviceOrder {
  HostOrder order;
  const char* name;
};

class KeptOnDevice : public KeptChunks, public ::testing::WithParamInterface<DeviceOrder> {
 protected:
  Pipeline make(std::int64_t device_cache_bytes, std::uint64_t device_from_bytes = 0, std::int64_t host_cache_bytes = 0,
                std::int64_t shared_bytes = 0) const {
    Config with = shared_bytes > 0 ? sharing(config(0), shared_bytes) : config(0);
    with.device_cache_bytes = device_cache_bytes;
    with.host_cache_bytes = host_cache_bytes;
    PipelineEnvironment around;
    around.device = make_host_device(GetParam().order);
    around.device_from_bytes = device_from_bytes;
    return Pipeline(with, around);
  }
};

TEST_P(KeptOnDevice, give_the_batches_of_a_pipeline_that_keeps_none) {
  Pipeline plain = make(0);
  const auto expected = batches(plain, 60);
  for (const std::int64_t cache_bytes : {1 << 20, 12 << 10, 1}) {
    Pipeline pipeline = make(cache_bytes);
    EXPECT_EQ(batches(pipeline, 60), expected) << cache_bytes;
    const Stats first = pipeline.stats();
    pipeline.stats_reset();
    EXPECT_EQ(batches(pipeline, 60), expected) << cache_bytes << ", again";
    const Stats again = pipeline.stats();
    EXPECT_GT(again.device_cache_hits + again.device_cache_misses, 0);
    if (cache_bytes == 1 << 20) {
      EXPECT_GT(first.device_cache_kept, 0);
      EXPECT_LE(first.device_cache_kept, 100);  // each chunk once
      EXPECT_EQ(again.device_cache_misses, 0);
      EXPECT_EQ(again.bytes_read, 0);
      EXPECT_EQ(again.h2d.input_bytes, 0);
    }
    if (cache_bytes == 1) {
      EXPECT_EQ(first.device_cache_kept, 0);
    }
  }
}

// Small batches are decoded by readers; with a cache the device decodes what it is to keep.
TEST_P(KeptOnDevice, are_those_of_small_batches_too) {
  Pipeline pipeline = make(1 << 20, ~std::uint64_t{0});
  const auto expected = batches(pipeline, 20);
  pipeline.stats_reset();
  EXPECT_EQ(batches(pipeline, 20), expected);
  EXPECT_EQ(pipeline.stats().bytes_read, 0);
}

// The second set takes the place of the first, and the third that of the second, while chunks are being decoded.
TEST_P(KeptOnDevice, of_compressed_sets_that_follow_each_other_are_right) {
  const char* const names[] = {"a.zarr", "b.zarr", "c.zarr"};
  for (const char* const name : names) {
    if (name != names[0]) write_array(path(name), {kRows, kColumns}, {6, 8});
    testing::compress_chunks(path(name));
  }
  Pipeline plain = make(0);
  const auto expected = batches(plain, 60);  // all hold the same elements
  for (const bool pinned : {false, true}) {
    Pipeline pipeline = pinned ? make(0, 0, 12 << 10) : make(12 << 10);
    for (int round = 0; round < 2; ++round)
      for (const char* const name : names) EXPECT_EQ(batches(pipeline, 60, name), expected) << name << round;
    const Stats stats = pipeline.stats();
    EXPECT_GT(pinned ? stats.host_cache_evicted : stats.device_cache_evicted, 10);
    EXPECT_GT(pinned ? stats.host_cache_hits : stats.device_cache_hits, 10);
  }
}

TEST_P(KeptOnDevice, are_not_those_that_the_device_could_not_decode) {
  testing::compress_chunks(path());
  const std::string chunk = path() + "/c.0.0";
  std::fstream(chunk, std::ios::in | std::ios::out | std::ios::binary).seekp(4) << '\x07';  // a reserved descriptor
  Pipeline pipeline = make(1 << 20);
  Sample sample;
  sample.uri = path();
  sample.aabb = {{0, 6}, {0, 8}};
  for (int attempt = 0; attempt < 2; ++attempt) {
    pipeline.push(std::make_shared<VectorSource>(std::vector<Sample>(4, sample)));
    EXPECT_THROW(pipeline.pop(), Error);
  }
  EXPECT_EQ(pipeline.stats().device_cache_kept, 0);
  EXPECT_EQ(pipeline.stats().device_cache_misses, 2);
}

TEST_P(KeptOnDevice, in_pinned_memory_they_go_up_from_there) {
  Pipeline plain = make(0);
  const auto expected = batches(plain, 60);
  for (const std::int64_t cache_bytes : {1 << 20, 12 << 10}) {
    Pipeline pipeline = make(0, 0, cache_bytes);
    EXPECT_EQ(batches(pipeline, 60), expected) << cache_bytes;
    pipeline.stats_reset();
    EXPECT_EQ(batches(pipeline, 60), expected) << cache_bytes << ", again";
    const Stats again = pipeline.stats();
    EXPECT_GT(again.host_cache_hits, 0);
    EXPECT_GT(again.h2d.input_bytes, 0);
    EXPECT_EQ(again.device_cache_hits + again.device_cache_misses, 0);
    if (cache_bytes == 1 << 20) {
      EXPECT_EQ(again.host_cache_misses, 0);
      EXPECT_EQ(again.bytes_read, 0);
    }
  }
}

TEST_P(KeptOnDevice, in_shared_memory_go_up_from_there) {
  for (const bool compressed : {false, true}) {
    if (compressed) testing::compress_chunks(path());
    Pipeline plain = make(0);
    const auto expected = batches(plain, 60);
    Pipeline first = make(0, 0, 0, 4 << 20), second = make(0, 0, 0, 4 << 20);
    EXPECT_EQ(batches(first, 60), expected);
    EXPECT_EQ(batches(second, 60), expected);
    const Stats stats = second.stats();
    EXPECT_EQ(stats.host_cache_misses, 0);
    EXPECT_EQ(stats.bytes_read, 0);
    EXPECT_GT(stats.h2d.input_bytes, 0);
    Pipeline on_cores(sharing(config(0)));  // chunks without descriptions for a device are others
    EXPECT_EQ(batches(on_cores, 10), batches(plain, 10));
    EXPECT_EQ(batches(second, 10), batches(plain, 10));
  }
}

// Sets follow each other while chunks go up and are decoded.
TEST_P(KeptOnDevice, in_shared_memory_that_is_full_are_right) {
  const char* const names[] = {"a.zarr", "b.zarr", "c.zarr"};
  for (const char* const name : names) {
    if (name != names[0]) write_array(path(name), {kRows, kColumns}, {6, 8});
    testing::compress_chunks(path(name));
  }
  Pipeline plain = make(0);
  const auto expected = batches(plain, 60);  // all hold the same elements
  Pipeline first = make(0, 0, 0, 1 << 20), second = make(0, 0, 0, 1 << 20);
  for (int round = 0; round < 2; ++round)
    for (const char* const name : names) {
      EXPECT_EQ(batches(first, 60, name), expected) << name << round;
      EXPECT_EQ(batches(second, 60, name), expected) << name << round;
    }
  EXPECT_GT(first.stats().host_cache_evicted + second.stats().host_cache_evicted, 10);
}

// What does not fit the device comes from pinned memory, and what comes from there is kept on the device.
TEST_P(KeptOnDevice, both_caches_together_read_each_chunk_once) {
  Pipeline plain = make(0);
  const auto expected = batches(plain, 60);
  Pipeline pipeline = make(12 << 10, 0, 1 << 20);
  EXPECT_EQ(batches(pipeline, 60), expected);
  pipeline.stats_reset();
  EXPECT_EQ(batches(pipeline, 60), expected) << "again";
  const Stats again = pipeline.stats();
  EXPECT_GT(again.device_cache_hits, 0);
  EXPECT_EQ(again.host_cache_hits, again.device_cache_misses);
  EXPECT_EQ(again.bytes_read, 0);
}

// Little of a large chunk: a device cache would not keep it.
TEST_P(KeptOnDevice, parts_of_large_chunks_are_no_reason_for_a_cache) {
  buffer_bytes_ = 4 << 20;
  write_array(path("large.zarr"), {800, 1000}, {800, 1000});
  Pipeline on_device = make(0);
  EXPECT_EQ(batches(on_device, 10, "large.zarr").size(), 10u);
  EXPECT_EQ(on_device.explain().wanted_again, 0);
  Pipeline on_cores(config(0));
  EXPECT_EQ(batches(on_cores, 10, "large.zarr").size(), 10u);
  EXPECT_GT(on_cores.explain().wanted_again, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Orders, KeptOnDevice,
                         ::testing::Values(DeviceOrder{{HostOrder::Kind::eager, 0, false}, "eager"},
                                           DeviceOrder{{HostOrder::Kind::lazy, 0, false}, "lazy"},
                                           DeviceOrder{{HostOrder::Kind::random, 3, false}, "random"}),
                         [](const auto& param) { return param.param.name; });

TEST_F(KeptChunks, more_than_the_free_memory_is_refused) {
  try {
    Pipeline pipeline(config(std::int64_t{1} << 60));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::oom);
    EXPECT_NE(std::string(error.what()).find("cache_bytes is too large"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace damacy
