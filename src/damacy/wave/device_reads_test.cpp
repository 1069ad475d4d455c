// Waves of single reads on host devices that work late: what comes first is waited for, and what was read is there when
// the read ends.
#include "damacy/wave/device_reads.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "damacy/device/host_device.h"
#include "damacy/zarr/metadata.h"

namespace damacy {
namespace {

constexpr std::size_t kBytes = 1000;

class ReadsOnDevice : public ::testing::TestWithParam<HostOrder::Kind> {
 protected:
  std::shared_ptr<DeviceReads> reads(std::size_t images = 64 << 10) const {
    return std::make_shared<DeviceReads>(
        device, make_host_stream_decoder(), make_host_copier(),
        DeviceReads::Sizes{.slots = 1, .slab = 4096, .images = images, .destination = 1 << 16, .scratch = 1 << 16});
  }
  static ReadWaves::Fail none() {
    return [](const Error& error) { ADD_FAILURE() << error.what(); };
  }

  // A chunk of kBytes that goes to the start of `out`, in so many pieces.
  WaveChunk chunk(std::size_t pieces = 1) const {
    const auto place = [this, pieces](PlacementList& list, std::uint64_t address, const ChunkLayout& layout) {
      const std::size_t each = kBytes / pieces;
      for (std::size_t i = 0; i < pieces; ++i) {
        BlockCopy copy;
        copy.op = {Dtype::u8, Dtype::u8, false};
        copy.rank = 1;
        copy.axes[0] = {static_cast<std::int64_t>(each), 1, 1};
        copy.src_offset = copy.dst_offset = static_cast<std::int64_t>(i * each);
        list.add(copy, address, reinterpret_cast<std::uint64_t>(out.data()), layout);
      }
    };
    const auto decode = [](std::span<const std::byte>, std::span<std::byte> decoded) {
      std::ranges::fill(decoded, std::byte{7});
      return true;
    };
    return {place, decode};
  }
  // An encoded chunk that is decoded here, by the callback: fives from the device would be another answer.
  void expect_decoded_by_host(const std::string& codec, const std::vector<std::byte>& packed) {
    const ArrayMetadata metadata = parse_v3_array(
        R"({"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0, "shape": [1000],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1000]}},
            "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}, {"name": ")" +
        codec + R"("}]})");
    ReadWaves waves(reads(), {}, none());
    waves.add_encoded(metadata.codecs, packed, kBytes, {{0, kBytes}}, chunk(), {});
    waves.finish();
    expect_all(7);
  }
  void expect_all(int value) const {
    EXPECT_TRUE(std::ranges::all_of(out.bytes(), [&](std::byte b) { return b == static_cast<std::byte>(value); }));
  }

  std::shared_ptr<Device> device = make_host_device({.kind = GetParam(), .seed = 2});
  HostBuffer out{device->device_memory(), kBytes};
  std::vector<std::byte> fives = std::vector<std::byte>(kBytes, std::byte{5});
};

TEST_P(ReadsOnDevice, what_was_read_is_there_at_the_end) {
  ReadWaves waves(reads(), {}, none());
  for (int wave = 0; wave < 5; ++wave) {  // through one slot
    std::vector<std::byte> bytes(kBytes, static_cast<std::byte>(wave));
    for (int i = 0; i < 4; ++i) waves.add_elements(bytes, 0, kBytes, chunk(), {});
  }
  waves.add_elements(fives, 0, kBytes, chunk(), {});
  waves.finish();
  expect_all(5);
}

TEST_P(ReadsOnDevice, work_at_the_destination_comes_first) {
  const auto producer = device->make_stream();
  producer->fill(out.bytes(), std::byte{9});
  const Event before = producer->record();
  ReadWaves waves(reads(), {before}, none());
  waves.add_elements(fives, 0, kBytes, chunk(), {});
  waves.finish();
  before.wait();
  expect_all(5);
}

TEST_P(ReadsOnDevice, a_chunk_that_the_host_decodes_instead_is_there_at_the_end) {
  expect_decoded_by_host("gzip", std::vector<std::byte>(50));
}

TEST_P(ReadsOnDevice, blosc_blocks_of_a_few_bytes_are_decoded_by_the_host) {
  std::vector<std::byte> frame;
  const auto append = [&](std::uint32_t number) {
    for (int shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<std::byte>(number >> shift));
  };
  const std::uint32_t start = 16 + 4 * kBytes;
  append(2 | 1 << 8 | 0x30 << 16 | 1 << 24);  // versions, lz4, one byte elements
  append(kBytes);
  append(/*blocksize=*/1);
  append(start + 5);
  for (std::size_t block = 0; block < kBytes; ++block) append(start);  // the same for all
  append(1);
  frame.push_back(std::byte{5});
  expect_decoded_by_host("blosc", frame);
}

TEST_P(ReadsOnDevice, descriptors_that_no_slab_holds_have_memory_of_their_own) {
  const auto shared = reads(/*images=*/256);
  ReadWaves waves(shared, {}, none());
  waves.add_elements(fives, 0, kBytes, chunk(/*pieces=*/1000), {});
  waves.finish();
  expect_all(5);
  EXPECT_EQ(shared->counters().h2d_copies, 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, ReadsOnDevice, ::testing::Values(HostOrder::Kind::lazy, HostOrder::Kind::random),
                         [](const auto& chosen) { return chosen.param == HostOrder::Kind::lazy ? "lazy" : "random"; });

}  // namespace
}  // namespace damacy
