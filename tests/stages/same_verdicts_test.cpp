// One chunk, good or damaged, read by both engines: the same bytes, or the same error, and with Config::verify the same
// care.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/codec/detail/test_encoders.h"
#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/pipeline/pipeline.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using codec_test::Bytes;

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
                      Bytes& bytes) const {
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
    std::vector<Sample> samples(20, Sample{before, {{begin, end}}});
    samples.push_back({uri, {{begin, end}}});
    pipeline.push(samples);
    for (int i = 0; i < 20; ++i) pipeline.pop();
    try {
      const Batch batch = pipeline.pop();
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

}  // namespace
}  // namespace damacy
