// Batches from kept chunks: equal to those of a pipeline that keeps none, with eviction and several threads.
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
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
  std::string path() const { return (dir_.path() / "a.zarr").string(); }
  static Config config(std::int64_t cache_bytes) {
    Config config;
    config.batch_size = 4;
    config.host_buffer_bytes = config.device_buffer_bytes = 1 << 20;
    config.n_io_threads = 4;
    config.n_batches = 3;
    config.lookahead_batches = 3;
    config.cache_bytes = cache_bytes;
    return config;
  }
  std::vector<Sample> samples(std::size_t count) const {
    std::mt19937 random{5};
    std::vector<Sample> all(count);
    for (Sample& sample : all) {
      const auto y = static_cast<std::int64_t>(random() % (kRows - 20)),
                 x = static_cast<std::int64_t>(random() % (kColumns - 20));
      sample.uri = path();
      sample.aabb = {{y, y + 20}, {x, x + 20}};
    }
    return all;
  }
  std::vector<std::vector<float>> batches(Pipeline& pipeline, std::size_t count) const {
    pipeline.push(std::make_shared<VectorSource>(samples(4 * count)));
    std::vector<std::vector<float>> all;
    for (std::size_t n = 0; n < count; ++n) {
      const Batch batch = pipeline.pop();
      const auto values = batch.view<float>("");
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }

  const TempDir dir_{"kept-chunks"};
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
