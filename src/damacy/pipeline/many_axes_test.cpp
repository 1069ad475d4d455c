// Arrays of more axes than a placement has, none of which merge: both engines deliver them, with one record a chunk.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/device/host_device.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "fakes/shallow_copier.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::ShallowCopier;
using testing::TempDir;

std::byte value_at(std::size_t position) {
  return static_cast<std::byte>(position * 7 + position / 251);
}

// Two elements along each of `rank` axes, stored in the opposite order of axes.
void write_reversed(const std::filesystem::path& root, std::size_t rank) {
  std::filesystem::create_directories(root);
  std::string twos = "2", order = formatted("{}", rank - 1), key = "c.0";
  for (std::size_t i = 1; i < rank; ++i) {
    twos += ", 2";
    order += formatted(", {}", rank - 1 - i);
    key += ".0";
  }
  std::ofstream(root / "zarr.json") << formatted(
      R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 9, )"
      R"("shape": [{}], "chunk_grid": {{"name": "regular", )"
      R"("configuration": {{"chunk_shape": [{}]}}}}, "chunk_key_encoding": {{"name": "default", )"
      R"("configuration": {{"separator": "."}}}}, "codecs": [{{"name": "transpose", )"
      R"("configuration": {{"order": [{}]}}}}, {{"name": "bytes"}}]}})",
      twos, twos, order);
  std::string chunk(std::size_t{1} << rank, '\0');
  for (std::size_t position = 0; position < chunk.size(); ++position) {
    std::size_t stored = 0;
    for (std::size_t i = 0; i < rank; ++i) stored |= (position >> i & 1) << (rank - 1 - i);
    chunk[stored] = static_cast<char>(value_at(position));
  }
  std::ofstream(root / key, std::ios::binary) << chunk;
}

struct Engine {
  std::optional<HostOrder> device;
  bool shallow;
  const char* name;
};

class ManyAxesOnDevice : public ::testing::TestWithParam<Engine> {
 protected:
  Pipeline make(OnError on_error = OnError::raise) const {
    Config config;
    config.batch_size = 2;
    config.dtype = Dtype::u8;
    config.on_error = on_error;
    config.host_buffer_bytes = config.device_buffer_bytes = 4 << 20;
    config.device.kind = DeviceChoice::Kind::cpu;
    PipelineEnvironment around;
    if (GetParam().device) around.device = make_host_device(*GetParam().device);
    if (GetParam().shallow) around.make_copier = [] { return std::make_unique<ShallowCopier>(); };
    around.device_from_bytes = 0;
    return Pipeline(config, std::move(around));
  }
  // The whole array, or its upper half along the first and the last axis.
  static Sample box(const std::filesystem::path& root, std::size_t rank, bool whole) {
    Sample sample{root.string(), {}};
    for (std::size_t i = 0; i < rank; ++i) sample.aabb.push_back({whole || (i != 0 && i != rank - 1) ? 0 : 1, 2});
    return sample;
  }
  TempDir dir_{"many-axes"};
};

TEST_P(ManyAxesOnDevice, whole_chunks_and_parts_of_them_are_right) {
  constexpr std::size_t kRank = 15;
  write_reversed(dir_.path() / "a.zarr", kRank);
  for (const bool whole : {true, false}) {
    Pipeline pipeline = make();
    const Sample sample = box(dir_.path() / "a.zarr", kRank, whole);
    pipeline.push({sample, sample});
    const Batch batch = pipeline.pop();
    const std::size_t elements = std::size_t{1} << (whole ? kRank : kRank - 2);
    ASSERT_EQ(batch.bytes().size(), 2 * elements);
    for (std::size_t i = 0; i < 2 * elements; ++i) {
      const std::size_t position = i % elements;
      const std::size_t stored = whole ? position : (std::size_t{1} << (kRank - 1) | position << 1 | 1);
      ASSERT_EQ(batch.bytes()[i], value_at(stored)) << i;
    }
  }
}

TEST_P(ManyAxesOnDevice, rows_that_failed_are_filled) {
  constexpr std::size_t kRank = 9;
  const std::filesystem::path root = dir_.path() / "b.zarr";
  write_reversed(root, kRank);
  std::filesystem::resize_file(root / "c.0.0.0.0.0.0.0.0.0", 100);
  Pipeline pipeline = make(OnError::fill);
  const Sample sample = box(root, kRank, false);
  pipeline.push({sample, sample});
  const Batch batch = pipeline.pop();
  for (const std::byte value : batch.bytes()) ASSERT_EQ(value, std::byte{9});
}

INSTANTIATE_TEST_SUITE_P(Engines, ManyAxesOnDevice,
                         ::testing::Values(Engine{{}, false, "workers"},
                                           Engine{HostOrder{HostOrder::Kind::eager, 0, false}, false, "eager"},
                                           Engine{HostOrder{HostOrder::Kind::lazy, 0, false}, false, "lazy_deep"},
                                           Engine{HostOrder{HostOrder::Kind::lazy, 0, false}, true, "lazy"},
                                           Engine{HostOrder{HostOrder::Kind::random, 1, false}, true, "random"}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace damacy
