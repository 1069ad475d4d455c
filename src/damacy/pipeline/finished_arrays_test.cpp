// Rows that are finished: equal bytes on every engine, fill values of failed rows, constants beyond the array, and what
// push refuses.
#include <filesystem>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/core/limits.h"
#include "damacy/pipeline/pipeline.h"
#include "support/tested_engines.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;
using testing::TestedEngine;
using testing::write_array;

// An array of 6 x 8 elements of u16, numbered from 0 on, in chunks of 2 x 3.
class FinishedArrays : public ::testing::TestWithParam<TestedEngine> {
 protected:
  FinishedArrays() { write_array(path(), {6, 8}, {2, 3}); }
  std::filesystem::path path() const { return dir_.path() / "a.zarr"; }
  Sample sample(Sample::Ranges box) const {
    Sample sample;
    sample.uri = path().string();
    sample.aabb = std::move(box);
    return sample;
  }
  static Config config(ArraySpec spec, OnError on_error = OnError::raise) {
    Config config;
    config.batch_size = 1;
    config.host_buffer_bytes = config.device_buffer_bytes = 1 << 20;
    config.n_io_threads = 2;
    config.on_error = on_error;
    config.arrays = {{"", std::move(spec)}};
    return config;
  }
  Pipeline make(const Config& config) const { return Pipeline(config, GetParam().environment()); }
  std::vector<float> row(const Config& config, Sample sample) const {
    Pipeline pipeline = make(config);
    pipeline.push(std::make_shared<VectorSource>(std::vector<Sample>{std::move(sample)}));
    pipeline.flush();
    const Batch batch = pipeline.pop();
    padded_bytes_ = pipeline.stats().bytes_padded;
    const auto values = batch.view<float>("");
    return {values.begin(), values.end()};
  }
  std::string refusal(const Config& config, const Sample& sample) const {
    Pipeline pipeline = make(config);
    try {
      pipeline.push(std::make_shared<VectorSource>(std::vector<Sample>{sample}));
    } catch (const Error& error) {
      return std::string(error.message());
    }
    return "";
  }

  TempDir dir_{"finished-arrays"};
  mutable std::int64_t padded_bytes_ = 0;
};

TEST_P(FinishedArrays, are_scaled_clipped_reflected_and_turned) {
  ArraySpec spec;
  spec.scale = 0.5;
  spec.offset = 1.0;
  spec.clip_high = 20.0;
  spec.pad = {{.border = Border::reflect}};
  Sample turned = sample({{-1, 2}, {6, 9}});
  turned.transpose = {{"", -1}, {"", -2}};
  turned.flip = {{"", -1}};
  // Rows 1, 0, 1 and columns 6, 7, 6 of r * 8 + c; exchanged; reversed along the last axis.
  const std::vector<float> stored{14, 15, 14, 6, 7, 6, 14, 15, 14};
  std::vector<float> wanted;
  for (int i = 0; i < 3; ++i)
    for (int j = 2; j >= 0; --j)
      wanted.push_back(std::min(stored[static_cast<std::size_t>(j * 3 + i)] * 0.5f + 1, 20.f));
  EXPECT_EQ(row(config(spec), turned), wanted);
  EXPECT_EQ(padded_bytes_, (9 - 4) * 4) << "all but rows 0 and 1 of columns 6 and 7";
}

TEST_P(FinishedArrays, of_constants_alone_read_nothing) {
  ArraySpec spec;
  spec.scale = 0.5;
  spec.pad = {{.border = Border::constant, .value = -3.0}};
  EXPECT_EQ(row(config(spec), sample({{-9, -7}, {2, 4}})), (std::vector<float>{-3, -3, -3, -3}));
  std::filesystem::remove(path() / "c.0.0");
  std::filesystem::create_directories(path() / "c.0.0");  // an object that cannot be read as one
  EXPECT_EQ(row(config(spec), sample({{-9, -7}, {2, 4}})), (std::vector<float>{-3, -3, -3, -3}));
}

TEST_P(FinishedArrays, that_fail_are_fill_values_finished_like_the_others) {
  std::filesystem::resize_file(path() / "c.0.0", 3);
  ArraySpec spec;
  spec.scale = ChannelNumbers(std::vector<double>{0.5, 2});
  spec.channel_axis = AxisKey{"", 0};
  spec.pad = {{.axis = AxisKey{"", 1}, .border = Border::constant, .value = -1.0}};
  const auto values = row(config(spec, OnError::fill), sample({{0, 2}, {-1, 2}}));
  EXPECT_EQ(values, (std::vector<float>{-1, 3.5, 3.5, -1, 14, 14}));
}

TEST_P(FinishedArrays, take_single_elements_and_steps) {
  const ArraySpec spec;
  AxisRange taken;
  taken.indices = {5, 0, 5};
  const std::vector<float> wanted{41, 44, 47, 1, 4, 7, 41, 44, 47};
  EXPECT_EQ(row(config(spec), sample({taken, {1, 8, 3}})), wanted);
  EXPECT_EQ(row(config(spec), sample({taken, {1, 10, 3}})), wanted) << "the stop is beyond the array, no element is";
  EXPECT_EQ(refusal(config(spec), sample({taken, {1, 11, 3}})), "aabb axis 1: stop 11 is beyond the array's size 8");
}

TEST_P(FinishedArrays, have_the_axes_in_the_order_that_was_asked_for) {
  ArraySpec spec;
  spec.axes = {"y", "x"};
  spec.order = {{AxisKey{"x"}, std::nullopt, AxisKey{"y"}}};
  Pipeline pipeline = make(config(spec));
  pipeline.push(std::make_shared<VectorSource>(std::vector<Sample>{sample({{0, 2}, {0, 3}})}));
  pipeline.flush();
  const Batch batch = pipeline.pop();
  EXPECT_EQ(batch.info().shape, (Dims{1, 3, 1, 2}));
  const auto values = batch.view<float>("");
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{0, 8, 1, 9, 2, 10}));
}

TEST_P(FinishedArrays, refuses_more_indices_of_an_axis) {
  AxisRange taken;
  taken.indices.assign(Limits::indices_per_axis, 0);
  EXPECT_EQ(refusal(config({}), sample({taken, {0, 1}})), "");
  taken.indices.push_back(0);
  EXPECT_EQ(refusal(config({}), sample({taken, {0, 1}})), "aabb axis 0: 4097 indices, the limit is 4096");
}

TEST_P(FinishedArrays, refuses_axes_that_are_not_there_and_cannot_change_places) {
  Sample flipped = sample({{0, 2}, {0, 3}});
  flipped.flip = {{"q"}};
  ArraySpec named;
  named.axes = {"y", "x"};
  EXPECT_EQ(refusal(config(named), flipped), "flip: no array has an axis 'q'; the array has 'y', 'x'");
  EXPECT_EQ(refusal(config({}), flipped),
            "the axes of the array have no names: count from the last (-1), or say ArraySpec(axes=…)");
  flipped.flip.clear();
  flipped.transpose = {{"x"}, {"y"}};
  EXPECT_EQ(refusal(config(named), flipped), "transpose: axes y and x have extents 2 and 3");
  named.order = {{AxisKey{"y"}}};
  EXPECT_EQ(refusal(config(named), sample({{0, 2}, {0, 3}})), "order: axis 'x' has extent 3 and is left out");
}

TEST_P(FinishedArrays, refuses_channels_that_do_not_fit) {
  ArraySpec spec;
  spec.channels = {0, 6};
  EXPECT_EQ(refusal(config(spec), sample({{0, 6}, {0, 3}})),
            "channels: the array has no channel axis: say ArraySpec(channel_axis=…)");
  spec.channel_axis = AxisKey{"", 0};
  EXPECT_EQ(refusal(config(spec), sample({{0, 6}, {0, 3}})), "channels: 6 is not below the axis's 6");
  spec.channels = {0, 5};
  EXPECT_EQ(refusal(config(spec), sample({{0, 5}, {0, 3}})),
            "channels: the box must be whole on axis 0, which has 6 elements");
  spec.scale = ChannelNumbers(std::vector<double>{1, 2, 3});
  EXPECT_EQ(refusal(config(spec), sample({{0, 6}, {0, 3}})), "scale has 3 numbers, the channel axis 2");
}

TEST_P(FinishedArrays, have_the_extents_of_the_first_sample) {
  Config three = config({});
  three.batch_size = 3;
  Pipeline pipeline = make(three);
  const auto push = [&](Sample::Ranges box) {
    pipeline.push(std::make_shared<VectorSource>(std::vector<Sample>{sample(std::move(box))}));
  };
  push({{0, 2}, {0, 3}});
  push({{0, 6, 4}, {0, 3}});  // rows 0 and 4
  EXPECT_THROW(push({{0, 6, 2}, {0, 3}}), Error);
}

INSTANTIATE_TEST_SUITE_P(Engines, FinishedArrays, ::testing::ValuesIn(testing::tested_engines(3)),
                         testing::kEngineName);

}  // namespace
}  // namespace damacy
