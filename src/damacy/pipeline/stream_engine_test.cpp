// The whole ordering of the stream engine on host devices: eager, lazy and random. On the lazy one a missing wait, or
// memory used again too early, gives wrong bytes.
#include "damacy/wave/device_waves.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "damacy/store/mounts.h"
#include "damacy/store/reference_store.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;
using testing::write_array;

struct Order {
  HostOrder order;
  const char* name;
};

class OnDevice : public ::testing::TestWithParam<Order> {
 protected:
  OnDevice() { write_array(root(), {40, 64}, {8, 16}); }
  std::filesystem::path root() const { return dir_.path() / "a.zarr"; }
  Sample crop(std::int64_t row, std::int64_t column) const {
    return {root().string(), {{row, row + 9}, {column, column + 20}}};
  }

  void compress() const { testing::compress_chunks(root()); }

  static Config small_config(std::int64_t batch_size) {
    Config config;
    config.batch_size = batch_size;
    config.host_buffer_bytes = config.device_buffer_bytes = 1 << 20;
    config.dtype = Dtype::f32;
    config.n_io_threads = 2;
    config.n_batches = 3;
    return config;
  }
  Pipeline make(const Config& config, std::uint64_t device_from_bytes = 0) const {
    PipelineEnvironment around;
    around.device = make_host_device(GetParam().order);
    around.device_from_bytes = device_from_bytes;
    return Pipeline(config, around);
  }
  static void expect_row(const Batch& batch, std::size_t row, const Sample& sample) {
    const auto* values = reinterpret_cast<const float*>(batch.bytes().data()) + row * 180;
    for (std::int64_t i = 0; i < 9; ++i)
      for (std::int64_t j = 0; j < 20; ++j)
        ASSERT_EQ(values[i * 20 + j], static_cast<float>((sample.aabb[0].start + i) * 64 + sample.aabb[1].start + j));
  }
  TempDir dir_{"stream-engine"};
};

TEST_P(OnDevice, many_batches_are_right_and_in_order) {
  for (const std::uint64_t device_from : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    Pipeline pipeline = make(small_config(4), device_from);
    std::mt19937 random(7);
    std::vector<Sample> samples;
    for (int i = 0; i < 4 * 60; ++i) samples.push_back(crop(random() % 31, random() % 44));
    pipeline.push(samples);
    for (std::size_t b = 0; b < 60; ++b) {
      const Batch batch = pipeline.pop();
      ASSERT_EQ(batch.batch_id(), static_cast<std::int64_t>(b));
      for (std::size_t row = 0; row < 4; ++row) expect_row(batch, row, samples[b * 4 + row]);
    }
  }
}

// Waves hold the chunks of all batches that wait. On the cores the queue would have two.
TEST_P(OnDevice, eight_batches_wait_unless_it_is_set_how_many) {
  constexpr std::int64_t kBatch = 4, kSlots = 3;
  for (const std::optional<std::int64_t> set : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{2}}) {
    Config config = small_config(kBatch);
    config.lookahead_batches = set;
    Pipeline pipeline = make(config);
    std::int64_t taken = 0;
    pipeline.push([&]() -> std::optional<Sample> { return crop(taken++ % 31, 0); });
    EXPECT_GE(taken, set.value_or(8) * kBatch);
    EXPECT_LE(taken, (set.value_or(8) + kSlots) * kBatch);
  }
}

// More than there is staging memory, so that it is used again: 40 batches want 20 chunks of 512 bytes each.
TEST_P(OnDevice, batches_of_several_waves_are_right) {
  for (const std::uint64_t device_from : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    Config config = small_config(100);
    config.host_buffer_bytes = config.device_buffer_bytes = 2 * 256 + (128 << 10);
    Pipeline pipeline = make(config, device_from);
    std::mt19937 random(8);
    std::vector<Sample> samples;
    for (int i = 0; i < 100 * 40; ++i) samples.push_back(crop(random() % 31, random() % 44));
    pipeline.push(samples);
    for (std::size_t b = 0; b < 40; ++b) {
      const Batch batch = pipeline.pop();
      for (std::size_t row = 0; row < 100; ++row) expect_row(batch, row, samples[b * 100 + row]);
    }
    EXPECT_GT(pipeline.stats().waves_emitted, 40 * 20 * 512 / config.host_buffer_bytes);
  }
}

// All chunks in one file, with bytes of no chunk before each.
TEST_P(OnDevice, chunks_that_are_parts_of_one_file_are_read_together) {
  compress();
  References references;
  std::ofstream file(dir_.path() / "all", std::ios::binary);
  for (const auto& entry : std::filesystem::directory_iterator(root())) {
    const std::string key = entry.path().filename().string();
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    file << "between";
    const References::Range range{static_cast<std::uint64_t>(file.tellp()), bytes.size()};
    file << bytes;
    if (key.starts_with("c."))
      references.add(key, (dir_.path() / "all").string(), range);
    else
      references.add_data(key, bytes);
  }
  file.close();
  ASSERT_FALSE(references.finish());
  const std::string uri = mount("store://parts/", make_reference_store("parts", std::move(references)));
  for (const std::uint64_t device_from : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    Pipeline pipeline = make(small_config(4), device_from);
    std::vector<Sample> samples;
    for (const std::int64_t row : {0, 10, 20, 31}) samples.push_back({uri, {{row, row + 9}, {44, 64}}});
    pipeline.push(samples);
    const Batch batch = pipeline.pop();
    for (std::size_t row = 0; row < samples.size(); ++row) expect_row(batch, row, samples[row]);
    EXPECT_EQ(pipeline.stats().reads_issued, 1);
  }
  unmount(uri);
}

// Their descriptors need more memory than the chunks.
TEST_P(OnDevice, thousands_of_rows_that_want_the_same_chunks_are_right) {
  compress();
  Pipeline pipeline = make(small_config(3000));
  pipeline.push(std::vector<Sample>(3000, crop(3, 5)));
  const Batch batch = pipeline.pop();
  for (std::size_t row = 0; row < 3000; ++row) expect_row(batch, row, crop(3, 5));
}

TEST_P(OnDevice, missing_chunks_are_fill_and_short_ones_fail_their_batch_alone) {
  std::filesystem::remove(root() / "c.0.0");
  std::filesystem::resize_file(root() / "c.4.3", 100);
  Pipeline pipeline = make(small_config(1));
  pipeline.push({crop(0, 0), crop(31, 40), crop(10, 20)});
  {
    const Batch batch = pipeline.pop();
    EXPECT_EQ(reinterpret_cast<const float*>(batch.bytes().data())[0], 7.0f);
    EXPECT_EQ(reinterpret_cast<const float*>(batch.bytes().data())[16], 16.0f);
  }
  EXPECT_THROW(pipeline.pop(), Error);
  expect_row(pipeline.pop(), 0, crop(10, 20));
}

TEST_P(OnDevice, buffers_that_hold_no_chunk_refuse_samples_and_take_no_more_memory_than_pages) {
  for (const std::int64_t bytes : {1, 4096, 40'000, 100'000}) {
    Config config = small_config(1);
    config.host_buffer_bytes = config.device_buffer_bytes = bytes;
    Pipeline pipeline = make(config);
    try {
      pipeline.push({crop(0, 0)});
      ADD_FAILURE() << "accepted with buffers of " << bytes << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.where().reason, "buffers") << error.what();
    }
    EXPECT_LT(pipeline.stats().gpu_bytes_committed, 1 << 20);
  }
}

TEST_P(OnDevice, the_smallest_buffers_that_hold_a_chunk_do) {
  for (const bool packed : {false, true}) {
    if (packed) compress();
    Config config = small_config(4);
    config.host_buffer_bytes = config.device_buffer_bytes = 2 * 256 + (128 << 10);
    Pipeline pipeline = make(config);
    for (int n = 0; n < 20; ++n) pipeline.push(std::vector<Sample>(4, crop(n, n)));
    pipeline.flush();
    for (int n = 0; n < 20; ++n) expect_row(pipeline.pop(), 3, crop(n, n));
  }
}

// What headers do not show the decoder finds; the host words it.
TEST_P(OnDevice, a_frame_that_does_not_decode_fails_its_batch_alone) {
  compress();
  std::fstream chunk(root() / "c.4.3", std::ios::in | std::ios::out | std::ios::binary);
  chunk.seekp(9);  // the block's header: entropy-coded, it says now
  chunk.put(static_cast<char>(256 << 3 | 2 << 1 | 1));
  chunk.close();
  Pipeline pipeline = make(small_config(1));
  pipeline.push({crop(0, 0), crop(31, 40), crop(10, 20)});
  expect_row(pipeline.pop(), 0, crop(0, 0));
  try {
    const Batch batch = pipeline.pop();
    ADD_FAILURE() << "delivered";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("chunk (4, 3)"), std::string_view::npos) << error.what();
  }
  expect_row(pipeline.pop(), 0, crop(10, 20));
}

TEST_P(OnDevice, fill_and_skip_mend_rows_on_the_device) {
  std::filesystem::resize_file(root() / "c.4.3", 100);
  for (const OnError mode : {OnError::fill, OnError::skip}) {
    Config config = small_config(2);
    config.on_error = mode;
    Pipeline pipeline = make(config);
    pipeline.push({crop(31, 40), crop(10, 20)});
    const Batch batch = pipeline.pop();
    if (mode == OnError::fill) {
      EXPECT_EQ(reinterpret_cast<const float*>(batch.bytes().data())[179], 7.0f);
    }
    expect_row(batch, mode == OnError::fill ? 1 : 0, crop(10, 20));
  }
}

TEST_P(OnDevice, a_slot_is_written_again_only_after_its_consumers_work) {
  const auto device = make_host_device(GetParam().order);
  PipelineEnvironment around;
  around.device = device;
  around.device_from_bytes = 0;
  Config config = small_config(1);
  config.n_batches = 1;
  Pipeline pipeline(config, around);
  pipeline.push({crop(0, 0), crop(20, 30)});
  const auto consumer = device->make_stream();
  std::vector<std::byte> taken(180 * 4);
  Event read;
  {
    Batch batch = pipeline.pop();
    consumer->copy(taken, batch.bytes());
    read = consumer->record();
    batch.release_after(read);
  }
  const Batch next = pipeline.pop();
  expect_row(next, 0, crop(20, 30));
  read.wait();
  float first = -1;
  std::memcpy(&first, taken.data() + 4 * 21, 4);
  EXPECT_EQ(first, 65.0f);  // row 1, column 1 of the first crop
}

INSTANTIATE_TEST_SUITE_P(HostDevices, OnDevice,
                         ::testing::Values(Order{{HostOrder::Kind::eager, 0, false}, "eager"},
                                           Order{{HostOrder::Kind::lazy, 0, false}, "lazy"},
                                           Order{{HostOrder::Kind::random, 1, false}, "random1"},
                                           Order{{HostOrder::Kind::random, 2, false}, "random2"}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace damacy
