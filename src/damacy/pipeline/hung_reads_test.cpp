// Reads that never end keep the staging memory they may still write to. Others go on with the rest, and fail by the
// deadline when there is none left; nothing waits for storage that does not answer.
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "damacy/core/checked.h"
#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "damacy/store/store.h"
#include "fakes/hung_store.h"
#include "support/blosc_chunks.h"
#include "support/error_of.h"
#include "support/eventually.h"
#include "support/tested_engines.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::HungStore;
using testing::TempDir;
using testing::TestedEngine;
using testing::write_array;

class HungReadsOnDevice : public ::testing::TestWithParam<TestedEngine> {
 protected:
  HungReadsOnDevice() {
    for (const char* name : {"bad.zarr", "good.zarr"}) write_array(dir_.path() / name, {kRows, 16}, {1, 16});
    write_array(dir_.path() / "large.zarr", {64, 16 * 16}, {64, 16 * 16});
    write_shard(dir_.path() / "shard.zarr");
    write_blocks(dir_.path() / "bad-blocks.zarr");
  }

  // Two large chunks of blosc, of kLarge bytes each, byte i of value i.
  static void write_blocks(const std::filesystem::path& root) {
    std::filesystem::create_directories(root);
    std::ofstream(root / "zarr.json") << formatted(
        R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 7, )"
        R"("shape": [{}], "chunk_grid": {{"name": "regular", )"
        R"("configuration": {{"chunk_shape": [{}]}}}}, "chunk_key_encoding": {{"name": "default", )"
        R"("configuration": {{"separator": "."}}}}, "codecs": [{{"name": "bytes"}}, {{"name": "blosc", )"
        R"("configuration": {{"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": 1, )"
        R"("blocksize": 65536}}}}]}})",
        2 * kLarge, kLarge);
    testing::ChunkBytes bytes(kLarge);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    const auto encoded = testing::blosc_packed(bytes, {.blocksize = 65536, .all_raw = true});
    for (const char* chunk : {"c.0", "c.1"})
      std::ofstream(root / chunk, std::ios::binary)
          .write(reinterpret_cast<const char*>(encoded.data()), static_cast<std::streamsize>(encoded.size()));
  }

  // One shard of two chunks of kWide elements, element i of value i.
  static void write_shard(const std::filesystem::path& root) {
    std::filesystem::create_directories(root);
    std::ofstream(root / "zarr.json") << formatted(
        R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint16", "fill_value": 7, )"
        R"("shape": [1, {}], "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [1, )"
        R"({}]}}}}, "chunk_key_encoding": {{"name": "default", )"
        R"("configuration": {{"separator": "."}}}}, "codecs": [{{"name": "sharding_indexed", )"
        R"("configuration": {{"chunk_shape": [1, {}], "codecs": [{{"name": "bytes", )"
        R"("configuration": {{"endian": "little"}}}}], "index_codecs": [{{"name": "bytes", )"
        R"("configuration": {{"endian": "little"}}}}]}}}}]}})",
        2 * kWide, 2 * kWide, kWide);
    std::vector<std::uint16_t> elements(2 * kWide);
    std::iota(elements.begin(), elements.end(), std::uint16_t{0});
    const std::uint64_t index[] = {0, 2 * kWide, 2 * kWide, 2 * kWide};
    std::ofstream file(root / "c.0.0", std::ios::binary);
    file.write(reinterpret_cast<const char*>(elements.data()), 4 * kWide);
    file.write(reinterpret_cast<const char*>(index), sizeof index);
  }

  // A sample of one chunk, of an array on storage that hangs or not.
  Sample row(const char* array, std::int64_t number) const {
    return {(dir_.path() / array).string(), {{number, number + 1}, {0, 16}}};
  }
  Pipeline make(std::int64_t batch_size, std::int64_t buffer_bytes = 256 << 10) {
    Config config;
    config.batch_size = batch_size;
    config.dtype = Dtype::u16;
    config.host_buffer_bytes = config.device_buffer_bytes = buffer_bytes;  // half of it stages
    config.n_io_threads = 2;
    config.device.kind = DeviceChoice::Kind::cpu;
    PipelineEnvironment around = GetParam().environment();
    around.clock = clock_;
    around.make_store = [this](const std::string& path) -> std::shared_ptr<Store> {
      auto files = make_file_store(path, 64);
      if (path.find("bad") == path.npos) return files;
      hung_ = std::make_shared<HungStore>(std::move(files));
      return hung_;
    };
    return Pipeline(config, std::move(around));
  }
  // Pops until there is an answer. Empty: `is_enough` before.
  template <class Enough>
  std::optional<Error> error_unless(Pipeline& pipeline, Enough is_enough) {
    std::optional<Error> answer;
    EXPECT_TRUE(testing::eventually([&] {
      if (is_enough()) return true;
      answer = error_of([&] { pipeline.pop(std::chrono::milliseconds(1)); });
      if (answer->kind() != ErrorKind::pop_timeout) return true;
      answer.reset();
      return false;
    }));
    return answer;
  }
  // The error of a sample of which the read hangs, or finds no memory. The clock stands still until one of the two is
  // certain: a thread that has not come so far would be late as well, and hold no memory.
  std::optional<Error> error_of_hung(Pipeline& pipeline, std::int64_t number) {
    const std::size_t before = hung_->hung();
    pipeline.push({row("bad.zarr", number)});
    if (auto error = error_unless(pipeline, [&] { return hung_->hung() > before; })) return error;
    clock_->advance(std::chrono::seconds(61));
    return error_unless(pipeline, [] { return false; });
  }
  static void expect_row(const Batch& batch, std::int64_t number) {
    for (std::int64_t i = 0; i < 16; ++i)
      ASSERT_EQ(reinterpret_cast<const std::uint16_t*>(batch.bytes().data())[i], number * 16 + i);
  }
  // So many reads hang, each of a chunk of its own, and each fails by its deadline.
  void let_hang(Pipeline& pipeline, std::int64_t reads) {
    pipeline.push({row("bad.zarr", kRows - 1)});  // so that metadata are known
    expect_row(pipeline.pop(), kRows - 1);
    hung_->hang(HungStore::Call::read, "");
    for (std::int64_t n = 0; n < reads; ++n) {
      const auto error = error_of_hung(pipeline, n);
      ASSERT_TRUE(error) << n;
      ASSERT_EQ(error->where().reason, "deadline") << error->what();
    }
  }

  static constexpr std::int64_t kRows = 128;
  static constexpr std::int64_t kWide = 6144;  // 12 KiB
  static constexpr std::int64_t kLarge = 1 << 20;
  TempDir dir_{"hung-reads"};
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::shared_ptr<HungStore> hung_;
};

TEST_P(HungReadsOnDevice, samples_on_storage_that_answers_go_on_while_there_is_memory) {
  Pipeline pipeline = make(1);
  let_hang(pipeline, 12);
  if (HasFatalFailure()) return;
  for (std::int64_t n = 0; n < kRows; ++n) {
    pipeline.push({row("good.zarr", n)});
    expect_row(pipeline.pop(), n);
  }
  hung_->let_go();
}

// Staging memory has no room for such a chunk any more. What is wanted of it is less.
TEST_P(HungReadsOnDevice, chunks_that_find_no_staging_memory_are_decoded_on_the_host) {
  Pipeline pipeline = make(1);
  let_hang(pipeline, 18);
  if (HasFatalFailure()) return;
  pipeline.push({row("large.zarr", 7)});
  const Batch batch = pipeline.pop();
  for (std::int64_t i = 0; i < 16; ++i)
    ASSERT_EQ(reinterpret_cast<const std::uint16_t*>(batch.bytes().data())[i], 7 * 256 + i);
  hung_->let_go();
}

// The two are read at once where there is memory for both.
TEST_P(HungReadsOnDevice, neighbours_that_find_no_memory_together_are_read_apart) {
  Pipeline pipeline = make(1);
  let_hang(pipeline, GetParam().device ? 18 : 60);
  if (HasFatalFailure()) return;
  for (int i = 0; i < 3; ++i) {
    pipeline.push({Sample{(dir_.path() / "shard.zarr").string(), {{0, 1}, {kWide - 8, kWide + 8}}}});
    const Batch batch = pipeline.pop();
    for (std::int64_t k = 0; k < 16; ++k)
      ASSERT_EQ(reinterpret_cast<const std::uint16_t*>(batch.bytes().data())[k], kWide - 8 + k);
  }
  hung_->let_go();
}

TEST_P(HungReadsOnDevice, memory_that_hung_reads_use_up_is_the_deadlines_error_until_they_end) {
  Pipeline pipeline = make(1);
  let_hang(pipeline, 100);
  if (HasFatalFailure()) return;
  pipeline.push({row("good.zarr", 3)});
  // At once: with the clock moved on, a slow read of good.zarr itself would be late.
  const Error error = error_of([&] { pipeline.pop(); });
  EXPECT_EQ(error.where().reason, "deadline") << error.what();
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_EQ(error.where().key, "c.3.0");
  const std::string_view line = error.what();
  EXPECT_NE(line.find("operations that are not responding hold "), line.npos) << line;
  EXPECT_NE(line.find(" bytes in "), line.npos) << line;
  EXPECT_NE(line.find("bad.zarr"), line.npos) << line;
  hung_->let_go();
  EXPECT_TRUE(testing::eventually([&] {  // abandoned threads need a moment to give their memory back
    pipeline.push({row("good.zarr", 5)});
    try {
      expect_row(pipeline.pop(), 5);
      return true;
    } catch (const Error&) {
      return false;
    }
  }));
}

// The head of a chunk, then two ranges of its blocks.
TEST_P(HungReadsOnDevice, each_read_of_a_large_chunk_that_hangs_is_the_deadlines_error) {
  const auto crop = [&](std::int64_t begin) {
    return Sample{(dir_.path() / "bad-blocks.zarr").string(), {{begin, begin + 300}}};
  };
  for (const std::size_t answered : {0, 1, 2}) {
    Pipeline pipeline = make(2, 16 << 20);
    pipeline.push({crop(0), crop(9)});
    pipeline.pop();
    hung_->hang(HungStore::Call::read, "", 1, answered);
    pipeline.push({crop(kLarge), crop(2 * kLarge - 300)});
    hung_->wait_until_hung();
    clock_->advance(std::chrono::seconds(61));
    const auto error = error_unless(pipeline, [] { return false; });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->where().reason, "deadline") << error->what();
    EXPECT_EQ(error->where().key, "c.1");
    pipeline.push({crop(kLarge + 5), crop(77)});
    const Batch batch = pipeline.pop();
    for (std::int64_t i = 0; i < 300; ++i) {
      const auto* rows = reinterpret_cast<const std::uint16_t*>(batch.bytes().data());
      ASSERT_EQ(rows[i], (5 + i) % 256);
      ASSERT_EQ(rows[300 + i], (77 + i) % 256);
    }
    hung_->let_go();
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, HungReadsOnDevice, ::testing::ValuesIn(testing::tested_engines(1)),
                         testing::kEngineName);

}  // namespace
}  // namespace damacy
