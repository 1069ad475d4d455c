// One chunk, good or damaged, read by both engines: the same bytes, or the same error, and with Config::verify the same
// care.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "support/encoders.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using codec_test::Bytes;

constexpr int kBefore = 20;  // batches before the one that is compared; not compressed

constexpr char kBloscLz4[] =
    R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"noshuffle","typesize":1,"blocksize":0}})";

class SameVerdicts : public ::testing::Test {
 protected:
  // A chunk of `size` bytes that is stored as `encoded`; another array, whose chunk is good, is read before it.
  struct Stored {
    std::string codecs;
    std::size_t size;
    Bytes encoded;
  };

  std::string write(const char* name, const std::string& codecs, std::size_t size, const Bytes& encoded) const {
    const std::filesystem::path root = dir_.path() / name;
    std::filesystem::create_directories(root);
    std::ofstream(root / "zarr.json")
        << R"({"zarr_format":3,"node_type":"array","data_type":"uint8","fill_value":0,"shape":[)" << size
        << R"(],"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" << size
        << R"(]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"."}},"codecs":[{"name":"bytes"})"
        << (codecs.empty() ? "" : ",") << codecs << "]}";
    std::ofstream(root / "c.0", std::ios::binary)
        .write(reinterpret_cast<const char*>(encoded.data()), static_cast<std::streamsize>(encoded.size()));
    return root.string();
  }

  // What a pop of bytes [begin, end) gives: the error's reason and text, or "".
  std::string verdict(bool device, const Stored& stored, std::int64_t begin, std::int64_t end, Verify verify,
                      Bytes& bytes, Stats* stats = nullptr) const {
    const std::string before = write("before.zarr", "", stored.size, Bytes(stored.size, std::byte{'S'}));
    const std::string uri = write("chunk.zarr", stored.codecs, stored.size, stored.encoded);
    PipelineEnvironment around;
    if (device) around.device = make_host_device({HostOrder::Kind::lazy, 0, false});
    around.device_from_bytes = 0;
    Config config;
    config.batch_size = 1;
    config.host_buffer_bytes = config.device_buffer_bytes = 8 << 20;
    config.dtype = Dtype::u8;
    config.verify = verify;
    Pipeline pipeline(config, around);
    std::vector<Sample> samples(kBefore, Sample{before, {{begin, end}}});
    samples.push_back({uri, {{begin, end}}});
    pipeline.push(samples);
    for (int i = 0; i < kBefore; ++i) pipeline.pop();
    try {
      const Batch batch = pipeline.pop();
      if (stats != nullptr) *stats = pipeline.stats();
      bytes.assign(batch.bytes().begin(), batch.bytes().end());
      return "";
    } catch (const Error& error) {
      return error.where().reason + ": " + error.what();
    }
  }

  // Both engines', which must be one.
  std::string verdict(const Stored& stored, std::int64_t begin, std::int64_t end,
                      Verify verify = Verify::needed) const {
    Bytes on_cores, on_device;
    const std::string said = verdict(false, stored, begin, end, verify, on_cores);
    EXPECT_EQ(verdict(true, stored, begin, end, verify, on_device), said);
    EXPECT_EQ(on_cores, on_device);
    return said;
  }

  testing::TempDir dir_{"same-verdicts"};
};

// 2,000 bytes in blocks of 1,000, each three raw streams of 333: bytes 999 and 1,999 are in none.
TEST_F(SameVerdicts, a_blosc_block_that_does_not_divide_into_its_streams) {
  Bytes encoded = codec_test::blosc_header(1 << 5, 3, 2000, 1000, 16 + 8 + 2 * 3 * 337);
  codec_test::append_le(encoded, 24, 4);
  codec_test::append_le(encoded, 24 + 3 * 337, 4);
  for (int stream = 0; stream < 6; ++stream) {
    codec_test::append_le(encoded, 333, 4);
    codec_test::append(encoded, Bytes(333, std::byte{'h'}));
  }
  const std::string said = verdict({kBloscLz4, 2000, encoded}, 0, 2000);
  EXPECT_NE(said.find("a block does not divide into its streams: got 1000, expected 3"), std::string::npos) << said;
  EXPECT_EQ(verdict({kBloscLz4, 2000, encoded}, 0, 500), said);
}

TEST_F(SameVerdicts, damage_in_headers_and_in_what_they_describe) {
  const Bytes raw = codec_test::image(4000);
  const Bytes zstd = codec_test::zstd_packed(raw, 3, /*checksum=*/true);
  const Bytes blosc = codec_test::blosc_packed(raw, {.typesize = 4, .blocksize = 1024});
  const Bytes lz4 = codec_test::with_size_in_front(4000, codec_test::lz4_packed(raw));
  const Bytes crc = codec_test::with_crc32c(raw);
  const struct {
    const char* codec;
    const Bytes& bytes;
  } kinds[] = {{R"({"name":"zstd"})", zstd},
               {kBloscLz4, blosc},
               {R"({"name":"numcodecs.lz4"})", lz4},
               {R"({"name":"crc32c"})", crc}};
  for (const auto& kind : kinds) {
    EXPECT_EQ(verdict({kind.codec, 4000, kind.bytes}, 100, 3000), "");
    for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{9}, std::size_t{17}, std::size_t{60},
                                 kind.bytes.size() / 2, kind.bytes.size() - 1}) {
      Bytes damaged = kind.bytes;
      damaged[at] ^= std::byte{0x40};
      verdict({kind.codec, 4000, damaged}, 100, 3000);
    }
  }
}

// A frame without a checksum, damaged behind what is needed: blocks of 1 KiB, the last of which is no block.
TEST_F(SameVerdicts, whole_chunks_are_decoded_to_their_ends) {
  const Bytes raw = codec_test::noise(40000);
  const std::string zstd = R"({"name":"zstd"})";
  Bytes encoded = codec_test::zstd_header({.window_byte = 0});
  for (std::size_t at = 0; at < 39000; at += 1000)
    codec_test::append(encoded, codec_test::zstd_raw_block(std::span(raw).subspan(at, 1000), false));
  codec_test::append(encoded, codec_test::zstd_block(2, 100, Bytes(100, std::byte{0xff}), true));
  EXPECT_EQ(verdict({zstd, 40000, encoded}, 0, 2000), "");
  EXPECT_NE(verdict({zstd, 40000, encoded}, 0, 2000, Verify::whole), "");
  EXPECT_NE(verdict({zstd, 40000, encoded}, 0, 40000), "");

  Bytes blosc = codec_test::blosc_packed(raw, {.typesize = 1, .blocksize = 4096});
  EXPECT_EQ(verdict({kBloscLz4, 40000, blosc}, 0, 2000, Verify::whole), "");
  blosc[16 + 4 * 9] = std::byte{1};  // where the last block begins: inside the header
  blosc[17 + 4 * 9] = std::byte{0};
  EXPECT_EQ(verdict({kBloscLz4, 40000, blosc}, 0, 2000), "");
  EXPECT_NE(verdict({kBloscLz4, 40000, blosc}, 0, 2000, Verify::whole), "");
}

// Large enough for reads of parts, which would not see the damage.
TEST_F(SameVerdicts, whole_chunks_are_read_whole) {
  const Bytes raw = codec_test::noise(700 << 10);
  Bytes blosc = codec_test::blosc_packed(raw, {.typesize = 1, .blocksize = 64 << 10});
  const std::size_t last_start = 16 + 4 * 10;
  for (std::size_t i = 0; i < 4; ++i) blosc[last_start + i] = std::byte{0xff};
  EXPECT_EQ(verdict({kBloscLz4, 700 << 10, blosc}, 0, 2000), "");
  EXPECT_NE(verdict({kBloscLz4, 700 << 10, blosc}, 0, 2000, Verify::whole), "");
}

constexpr std::size_t kLarge = 1 << 20;  // encoded, it is larger than what is always read whole

// Bytes that hardly compress, in 256 blocks or so; the start of a block is never 0x40 off a right one.
Bytes large_chunk(const codec_test::BloscWriter& writer) {
  Bytes raw = codec_test::noise(kLarge);
  for (std::size_t i = 0; i < kLarge; i += 3) raw[i] = static_cast<std::byte>(i >> 12);
  return codec_test::blosc_packed(raw, writer);
}

TEST_F(SameVerdicts, of_large_chunks_a_device_decodes_only_the_needed_blocks) {
  const codec_test::BloscWriter writers[] = {
      {.typesize = 4, .blocksize = 4096, .filter_flags = 1},
      {.typesize = 4, .blocksize = 4096, .filter_flags = 4, .split = false},
      {.typesize = 1, .blocksize = 10000, .codec = BloscCodec::zstd},
      {.typesize = 2, .blocksize = 256, .filter_flags = 1},  // with a table of 16 KiB
      {.typesize = 1, .blocksize = 4096, .share_equal_blocks = true, .gap = 77},
  };
  for (const codec_test::BloscWriter& writer : writers) {
    const Bytes encoded = large_chunk(writer);
    ASSERT_GT(encoded.size(), std::size_t{600} << 10);
    for (const std::int64_t begin : {0, 5, 4095, 500'000, 1'048'476}) {
      Bytes on_cores, on_device;
      Stats stats;
      EXPECT_EQ(verdict(false, {kBloscLz4, kLarge, encoded}, begin, begin + 100, Verify::needed, on_cores), "");
      EXPECT_EQ(verdict(true, {kBloscLz4, kLarge, encoded}, begin, begin + 100, Verify::needed, on_device, &stats), "");
      EXPECT_EQ(on_cores, on_device);
      EXPECT_EQ(stats.chunks_decoded_on_host, kBefore);
      EXPECT_LT(stats.bytes_read, kBefore * 8192 + 60'000);  // also the samples before
    }
  }
}

TEST_F(SameVerdicts, blocks_of_large_chunks_in_any_order) {
  codec_test::BloscWriter writer{.typesize = 4, .blocksize = 65536, .filter_flags = 1};
  for (std::uint32_t block = 0; block < 16; ++block) writer.write_order.push_back(block * 7 % 16);
  const Bytes encoded = large_chunk(writer);
  for (const std::int64_t begin : {0, 65000, 700'000})
    EXPECT_EQ(verdict({kBloscLz4, kLarge, encoded}, begin, begin + 70'000), "");
}

// Block 2 begins inside block 1, and both are right: a read of block 1 that stops at the next start has too little.
TEST_F(SameVerdicts, blocks_of_large_chunks_that_overlap) {
  constexpr std::size_t kBlock = 65536, kStep = kBlock + 4, kTable = 16 + 4 * 16;
  Bytes raw = codec_test::noise(kLarge);
  Bytes length;
  codec_test::append_le(length, kBlock, 4);
  std::ranges::copy(length, raw.begin() + kBlock + 1000);
  Bytes encoded = codec_test::blosc_packed(raw, {.typesize = 1, .blocksize = kBlock, .all_raw = true});
  ASSERT_EQ(encoded.size(), kTable + 16 * kStep);
  Bytes start;
  codec_test::append_le(start, kTable + kStep + 4 + 1000, 4);
  std::ranges::copy(start, encoded.begin() + 16 + 4 * 2);
  for (const std::int64_t begin : {kBlock, 2 * kBlock, kBlock + kBlock / 2}) {
    Bytes on_device;
    Stats stats;
    EXPECT_EQ(verdict({kBloscLz4, kLarge, encoded}, begin, begin + 60'000), "");
    EXPECT_EQ(verdict(true, {kBloscLz4, kLarge, encoded}, begin, begin + 60'000, Verify::needed, on_device, &stats),
              "");
    EXPECT_EQ(stats.chunks_decoded_on_host, kBefore + (begin == kBlock ? 1 : 0));
  }
}

TEST_F(SameVerdicts, damage_in_large_chunks) {
  for (const BloscCodec codec : {BloscCodec::lz4, BloscCodec::zstd}) {
    const Bytes good =
        large_chunk({.typesize = 4, .blocksize = 65536, .codec = codec, .filter_flags = 1, .split = false});
    const auto start_of = [&](std::size_t block) {
      std::uint32_t start = 0;
      std::memcpy(&start, good.data() + 16 + 4 * block, sizeof start);
      return std::size_t{start};
    };
    std::vector<std::size_t> places = {0, 2, 3, 4, 8, 12, 16, 20, 24, good.size() - 1};
    for (const std::size_t block : {0, 1, 2, 3})
      for (const std::size_t at : {0, 2, 4, 5, 9, 40, 5000}) places.push_back(start_of(block) + at);
    for (const std::size_t at : places) {
      Bytes damaged = good;
      damaged[at] ^= std::byte{0x40};
      verdict({kBloscLz4, kLarge, damaged}, 65000, 140'000);
    }
    for (const std::size_t size : {std::size_t{20}, std::size_t{600'000}, good.size() - 1})
      verdict({kBloscLz4, kLarge, Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))}, 65000,
              140'000);
  }
}

}  // namespace
}  // namespace damacy
