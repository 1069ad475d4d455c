// Samples of several arrays: equal bytes on every engine, one verdict for a sample, and what push refuses.
#include <filesystem>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/pipeline/pipeline.h"
#include "support/tested_engines.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;
using testing::TestedEngine;
using testing::write_array;

class NamedArrays : public ::testing::TestWithParam<TestedEngine> {
 protected:
  static constexpr std::int64_t kRows = 40, kColumns = 64, kHigh = 9, kWide = 20;

  NamedArrays() {
    write_array(image(), {2, kRows, kColumns}, {1, 8, 16});
    write_array(label(), {kRows, kColumns}, {16, 16});
  }
  std::filesystem::path image() const { return dir_.path() / "image.zarr"; }
  std::filesystem::path label() const { return dir_.path() / "label.zarr"; }

  // An image, a label, and a stack of the label's box and of its first box.
  Sample sample(std::int64_t row, std::int64_t column) const {
    const Sample::Ranges box{{row, row + kHigh}, {column, column + kWide}};
    Sample sample;
    sample.parts = {{"image", image().string(), {{0, 2}, box[0], box[1]}},
                    {"label", label().string(), box},
                    {"both", label().string(), box, true},
                    {"both", label().string(), {{0, kHigh}, {0, kWide}}, true}};
    return sample;
  }
  static Config config(std::int64_t batch_size, OnError on_error = OnError::raise) {
    Config config;
    config.batch_size = batch_size;
    config.host_buffer_bytes = config.device_buffer_bytes = 1 << 20;
    config.n_io_threads = 2;
    config.on_error = on_error;
    config.arrays = {{"label", {Dtype::i64}}, {"image", {}}, {"both", {Dtype::u16}}};
    return config;
  }
  Pipeline make(const Config& config) const { return Pipeline(config, GetParam().environment()); }

  template <class T>
  static void expect_box(const Batch& batch, const char* name, std::int64_t element, std::int64_t first,
                         std::int64_t row, std::int64_t column) {
    const auto values = batch.view<T>(name).subspan(static_cast<std::size_t>(element));
    for (std::int64_t i = 0; i < kHigh; ++i)
      for (std::int64_t j = 0; j < kWide; ++j)
        ASSERT_EQ(values[static_cast<std::size_t>(i * kWide + j)],
                  static_cast<T>(first + (row + i) * kColumns + column + j))
            << name;
  }
  static void expect_row(const Batch& batch, std::int64_t index, const Sample& sample) {
    constexpr std::int64_t kBox = kHigh * kWide;
    const auto row = sample.parts[1].aabb[0].start, column = sample.parts[1].aabb[1].start;
    expect_box<float>(batch, "image", 2 * index * kBox, 0, row, column);
    expect_box<float>(batch, "image", (2 * index + 1) * kBox, kRows * kColumns, row, column);
    expect_box<std::int64_t>(batch, "label", index * kBox, 0, row, column);
    expect_box<std::uint16_t>(batch, "both", 2 * index * kBox, 0, row, column);
    expect_box<std::uint16_t>(batch, "both", (2 * index + 1) * kBox, 0, 0, 0);
  }
  static ErrorWhere refused(Pipeline& pipeline, const Sample& sample) {
    try {
      pipeline.push({sample});
    } catch (const Error& error) {
      return error.where();
    }
    ADD_FAILURE() << "accepted";
    return {};
  }

  TempDir dir_{"named-arrays"};
};

TEST_P(NamedArrays, are_delivered_together_and_in_order) {
  Pipeline pipeline = make(config(3));
  std::mt19937 random(5);
  std::vector<Sample> samples;
  for (int i = 0; i < 3 * 20 + 1; ++i) samples.push_back(sample(random() % 31, random() % 44));
  pipeline.push(samples);
  std::int64_t rows = 0;
  for (std::int64_t b = 0; b <= 20; ++b) {
    if (b == 20) pipeline.flush();
    const Batch batch = pipeline.pop();
    EXPECT_EQ(batch.names(), (std::vector<std::string>{"label", "image", "both"}));
    EXPECT_EQ(batch.info("both").shape.size(), 4u);
    EXPECT_EQ(batch.info("label").dtype, Dtype::i64);
    for (const std::string& name : batch.names()) EXPECT_EQ(batch.info(name).device_ptr % 256, 0u);
    for (std::int64_t row = 0; row < batch.info("label").shape[0]; ++row)
      expect_row(batch, row, samples[static_cast<std::size_t>(rows++)]);
  }
  EXPECT_EQ(rows, 61);
  EXPECT_EQ(pipeline.stats().batches_emitted, 21);
}

// The label's box occurs twice in a sample, and its first box in all.
TEST_P(NamedArrays, decode_a_chunk_of_several_arrays_once) {
  Pipeline pipeline = make(config(1));
  pipeline.push({sample(0, 0)});
  expect_row(pipeline.pop(), 0, sample(0, 0));
  const Stats stats = pipeline.stats();
  EXPECT_EQ(stats.chunks_decoded, 2 * 2 * 2 + 2);  // of each channel 2 by 2 chunks, of the label 1 by 2
  EXPECT_EQ(stats.chunks_deduplicated, 2 * 2);
  EXPECT_EQ(stats.assemble.output_bytes, 180 * (2 * 4 + 8 + 2 * 2));
}

TEST_P(NamedArrays, fail_together) {
  std::filesystem::resize_file(label() / "c.2.3", 100);
  const std::vector<Sample> samples{sample(0, 0), sample(31, 44), sample(10, 20)};
  {
    Pipeline pipeline = make(config(1));
    pipeline.push(samples);
    expect_row(pipeline.pop(), 0, samples[0]);
    try {
      static_cast<void>(pipeline.pop());
      ADD_FAILURE() << "delivered";
    } catch (const Error& error) {
      EXPECT_EQ(error.where().array, "label");
      EXPECT_EQ(error.where().uri, label().string());
      EXPECT_NE(std::string(error.what()).find("sample 1: label: "), std::string::npos) << error.what();
    }
    expect_row(pipeline.pop(), 0, samples[2]);
  }
  {
    Pipeline pipeline = make(config(3, OnError::skip));
    pipeline.push(samples);
    const Batch batch = pipeline.pop();
    for (const std::string& name : batch.names()) EXPECT_EQ(batch.info(name).shape[0], 2);
    EXPECT_EQ(batch.sample_indices(), (std::vector<std::int64_t>{0, 2}));
    expect_row(batch, 0, samples[0]);
    expect_row(batch, 1, samples[2]);
    EXPECT_EQ(pipeline.stats().samples_skipped, 1);
  }
  Pipeline pipeline = make(config(3, OnError::fill));
  pipeline.push(samples);
  const Batch batch = pipeline.pop();
  EXPECT_EQ(batch.valid(), (std::vector<bool>{true, false, true}));
  expect_row(batch, 0, samples[0]);
  expect_row(batch, 2, samples[2]);
  for (std::int64_t i = 0; i < 180; ++i) {
    EXPECT_EQ(reinterpret_cast<const std::int64_t*>(batch.bytes("label").data())[180 + i], 7);
    EXPECT_EQ(reinterpret_cast<const float*>(batch.bytes("image").data())[360 + i], 7);
    EXPECT_EQ(reinterpret_cast<const float*>(batch.bytes("image").data())[540 + i], 7);
    EXPECT_EQ(reinterpret_cast<const std::uint16_t*>(batch.bytes("both").data())[360 + i], 7);
  }
}

TEST_P(NamedArrays, must_be_those_of_the_pipeline) {
  Pipeline pipeline = make(config(1));
  EXPECT_EQ(refused(pipeline, {label().string(), {{0, 9}, {0, 20}}}).reason, "names");
  Sample other = sample(0, 0);
  other.parts[1].name = "lable";
  EXPECT_EQ(refused(pipeline, other).reason, "names");
  pipeline.push({sample(0, 0)});
  Sample longer = sample(0, 0);
  longer.parts[1].aabb[1].stop = 21;
  EXPECT_EQ(refused(pipeline, longer).array, "label");
  Sample shallow = sample(0, 0);
  shallow.parts.pop_back();
  EXPECT_EQ(refused(pipeline, shallow).reason, "extents");
  Sample uneven = sample(0, 0);
  uneven.parts[3].stacked = false;
  EXPECT_EQ(refused(pipeline, uneven).reason, "names");
  expect_row(pipeline.pop(), 0, sample(0, 0));
}

TEST_P(NamedArrays, take_their_names_and_extents_from_the_first_sample) {
  Config free = config(1);
  free.arrays.clear();
  Pipeline pipeline = make(free);
  Sample uneven = sample(0, 0);
  uneven.parts[3].aabb[1].stop = 21;
  EXPECT_EQ(refused(pipeline, uneven).reason, "extents");  // of its stack
  EXPECT_EQ(pipeline.is_named(), std::nullopt);
  pipeline.push({sample(3, 4)});
  EXPECT_EQ(pipeline.is_named(), true);
  const Batch batch = pipeline.pop();
  EXPECT_EQ(batch.names(), (std::vector<std::string>{"image", "label", "both"}));
  expect_box<float>(batch, "label", 0, 0, 3, 4);
  EXPECT_THROW(static_cast<void>(batch.info()), Error);
  EXPECT_THROW(static_cast<void>(batch.bytes("lable")), Error);
  EXPECT_EQ(batch.view<float>("both").shape(), (Dims{1, 2, kHigh, kWide}));
  EXPECT_EQ(batch.view<float>("both").size(), 2 * 180u);
  EXPECT_THROW(static_cast<void>(batch.view<std::int32_t>("both")), Error);
}

INSTANTIATE_TEST_SUITE_P(Engines, NamedArrays, ::testing::ValuesIn(testing::tested_engines(3)), testing::kEngineName);

}  // namespace
}  // namespace damacy
