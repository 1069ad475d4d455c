// Arrays of more axes than a placement has, none of which merge: both engines deliver them, with one record a chunk.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "damacy/copy/device_queue.h"
#include "damacy/core/text.h"
#include "damacy/device/host_device.h"
#include "damacy/pipeline/pipeline.h"
#include "damacy/wave/device_reads.h"
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
  std::string twos = "2", order = text(rank - 1), key = "c.0";
  for (std::size_t i = 1; i < rank; ++i) {
    twos += ", 2";
    order += text(", ", rank - 1 - i);
    key += ".0";
  }
  std::ofstream(root / "zarr.json") << text(
      R"({"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 9, "shape": [)", twos,
      R"(], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [)", twos,
      R"(]}}, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}, "codecs": [)",
      R"({"name": "transpose", "configuration": {"order": [)", order, R"(]}}, {"name": "bytes"}]})");
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

// A transpose of 12 axes of two elements.
BlockCopy transpose() {
  BlockCopy copy;
  copy.rank = 12;
  for (int i = 0; i < 12; ++i) copy.axes[static_cast<std::size_t>(i)] = {2, 1 << i, 1 << (11 - i)};
  return copy;
}

class ManyAxesOfSingleReadsOnDevice : public ::testing::TestWithParam<HostOrder::Kind> {
 protected:
  ManyAxesOfSingleReadsOnDevice() {
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = value_at(i);
    run_block_copy(transpose(), chunk, wanted);
  }
  void expect_wanted(const HostBuffer& out) const { EXPECT_TRUE(std::ranges::equal(out.bytes(), wanted)); }

  std::shared_ptr<Device> device = make_host_device({.kind = GetParam(), .seed = 5});
  std::vector<std::byte> chunk = std::vector<std::byte>(1 << 12), wanted = chunk;
};

TEST_P(ManyAxesOfSingleReadsOnDevice, chunks_are_placed_in_portions) {
  HostBuffer out(device->device_memory(), 1 << 12);
  const auto reads = std::make_shared<DeviceReads>(
      device, make_host_stream_decoder(), std::make_unique<ShallowCopier>(),
      DeviceReads::Sizes{.slots = 1, .slab = 8192, .images = 4096, .destination = 1 << 14, .scratch = 1 << 14});
  ReadWaves waves(reads, {}, [](const Error& error) { ADD_FAILURE() << error.what(); });
  const auto place = [&](PlacementList& list, std::uint64_t address, const ChunkLayout& layout) {
    list.add(transpose(), address, reinterpret_cast<std::uint64_t>(out.data()), layout);
  };
  waves.add_elements(chunk, 0, chunk.size(), {place, {}}, {});
  waves.finish();
  expect_wanted(out);
}

TEST_P(ManyAxesOfSingleReadsOnDevice, copies_between_device_arrays_are_made_in_portions) {
  DeviceQueue queue(device, std::make_unique<ShallowCopier>());
  const HostBuffer in = queue.allocate(1 << 12), out = queue.allocate(1 << 12);
  queue.upload(in.bytes(), chunk);
  queue.copy(transpose(), in.bytes(), reinterpret_cast<std::uint64_t>(out.data()));
  queue.record().wait();
  expect_wanted(out);
}

INSTANTIATE_TEST_SUITE_P(Devices, ManyAxesOfSingleReadsOnDevice,
                         ::testing::Values(HostOrder::Kind::lazy, HostOrder::Kind::random),
                         [](const auto& chosen) { return chosen.param == HostOrder::Kind::lazy ? "lazy" : "random"; });

}  // namespace
}  // namespace damacy
