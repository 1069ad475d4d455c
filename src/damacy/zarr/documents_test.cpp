// Documents that other libraries wrote.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "damacy/zarr/metadata.h"
#include "support/documents.h"
#include "support/written_documents.h"

namespace damacy {
namespace {

using namespace for_tests;

constexpr bool kLittle = std::endian::native == std::endian::little;

std::uint64_t fill_bits(const ArrayMetadata& array) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, array.fill.data(), 8);
  return kLittle ? bits : bits >> (64 - 8 * size_of(array.dtype));
}

TEST(WrittenByZarrPython, plain) {
  const auto array = parse_v3_array(kPlain3);
  EXPECT_EQ(array.shape, (Dims{10, 7}));
  EXPECT_EQ(array.chunk_shape, (Dims{4, 3}));
  EXPECT_EQ(array.dtype, Dtype::u16);
  EXPECT_EQ(array.swap_bytes, !kLittle);
  EXPECT_EQ(array.codec_names, (std::vector<std::string>{"bytes", "zstd"}));
}

TEST(WrittenByZarrPython, blosc_with_nan_as_fill) {
  const auto array = parse_v3_array(kBlosc3);
  EXPECT_EQ(array.codecs.codecs()[0].id, CodecId::blosc);
  EXPECT_EQ(fill_bits(array), 0x7fc00000u);
}

TEST(WrittenByZarrPython, sharded_with_negative_zero_as_fill_and_nan_in_attributes) {
  const auto array = parse_v3_array(kSharded);
  EXPECT_EQ(array.shard_shape, (Dims{40, 30}));
  EXPECT_EQ(array.chunk_shape, (Dims{10, 15}));
  EXPECT_EQ(array.shards.at(0).index, (ShardIndexLayout{.at_end = true, .big_endian = false, .checksums = 1}));
  EXPECT_EQ(fill_bits(array), std::uint64_t{1} << 63);
}

TEST(WrittenByZarrPython, transposed_with_a_checksum_after_gzip) {
  const auto array = parse_v3_array(kTransposed);
  EXPECT_EQ(array.storage_order, (Dims{1, 0}));
  ASSERT_EQ(array.codecs.codecs().size(), 2u);
  EXPECT_EQ(array.codecs.codecs()[1].id, CodecId::crc32c);
}

TEST(WrittenByZarrPython, other_keys_types_and_ranks) {
  EXPECT_EQ(parse_v3_array(kV2Keys).keys, (KeyEncoding{false, '/'}));
  EXPECT_EQ(parse_v3_array(kComplex).dtype, Dtype::complex64);
  EXPECT_EQ(fill_bits(parse_v3_array(kComplex)), kLittle ? 0x7f8000003f800000u : 0x3f8000007f800000u);
  EXPECT_EQ(parse_v3_array(kDatetime3).dtype, Dtype::datetime64);
  EXPECT_EQ(fill_bits(parse_v3_array(kDatetime3)), std::uint64_t{1} << 63);
  EXPECT_EQ(parse_v3_array(kScalar).shape, Dims{});
  EXPECT_EQ(parse_v3_array(kNumcodecsLz4).codecs.codecs()[0].id, CodecId::lz4);
  EXPECT_EQ(parse_v3_array(kNumcodecsChecksum).codecs.codecs()[0],
            (CodecSpec{CodecId::crc32c, true, "numcodecs.crc32c"}));
}

TEST(WrittenByZarrPython, a_shard_with_its_index_at_the_start_and_a_transpose_inside) {
  const auto array = parse_v3_array(kShardStart);
  EXPECT_FALSE(array.shards.at(0).index.at_end);
  EXPECT_EQ(array.shards.at(0).index_order, (Dims{0, 1}));
  EXPECT_EQ(array.storage_order, (Dims{1, 0}));
  EXPECT_EQ(array.swap_bytes, kLittle);
}

TEST(WrittenByZarrPython, what_is_not_supported_is_refused_by_name) {
  const auto refusal = [](std::string_view document) { return refusal_of([&] { parse_v3_array(document); }); };
  EXPECT_EQ(refusal(kString), unsupported("data-type", "/data_type"));
  EXPECT_EQ(refusal(kVlen), unsupported("data-type", "/data_type"));
  EXPECT_EQ(refusal(kStruct), unsupported("data-type", "/data_type"));
  EXPECT_EQ(refusal(kNumcodecsDelta), unsupported("codec", "/codecs/0"));
}

TEST(WrittenByZarrPython, shards_in_shards) {
  const auto array = parse_v3_array(kNested);
  ASSERT_EQ(array.shards.size(), 2u);
  EXPECT_EQ(array.shard_shape, (Dims{32, 32}));
  EXPECT_EQ(array.shards[1].shape, (Dims{16, 16}));
  EXPECT_EQ(array.chunk_shape, (Dims{8, 8}));
}

TEST(WrittenByZarrPython, v2) {
  const auto plain = parse_v2_array(kPlain2);
  EXPECT_EQ(plain.keys, (KeyEncoding{false, '.'}));
  EXPECT_FALSE(plain.separator_was_absent);
  const auto blosc = parse_v2_array(kBlosc2);
  EXPECT_EQ(blosc.keys, (KeyEncoding{false, '/'}));
  EXPECT_EQ(blosc.storage_order, (Dims{1, 0}));
  EXPECT_EQ(blosc.swap_bytes, kLittle);
  EXPECT_EQ(parse_v2_array(kLz42).dtype, Dtype::boolean);
  const auto checksum = parse_v2_array(kChecksum2);
  EXPECT_EQ(checksum.codec_names, (std::vector<std::string>{"crc32c", "zlib"}));
  EXPECT_EQ(fill_bits(checksum), 0x7ff8000000000000u);
  EXPECT_EQ(parse_v2_array(kDatetime2).dtype, Dtype::datetime64);
  EXPECT_EQ(parse_v2_array(kDelta2).codecs.codecs()[0].id, CodecId::delta);
  EXPECT_EQ(refusal_of([] { parse_v2_array(kBytes2); }), unsupported("data-type", "/dtype"));
}

TEST(WrittenByTensorstore, v3) {
  const auto array = parse_v3_array(kTensorstoreSharded);
  EXPECT_EQ(array.dtype, Dtype::bf16);
  EXPECT_EQ(array.chunk_shape, (Dims{32, 32}));
  EXPECT_FALSE(array.shards.at(0).index.at_end);
  const auto plain = parse_v3_array(kTensorstore3);
  EXPECT_EQ(plain.storage_order, (Dims{1, 0}));
  EXPECT_EQ(plain.swap_bytes, kLittle);
  EXPECT_EQ(fill_bits(plain), 3u);
}

TEST(WrittenByTensorstore, v2) {
  EXPECT_EQ(fill_bits(parse_v2_array(kTensorstore2)), 0u);
  const auto array = parse_v2_array(kTensorstoreF);
  EXPECT_EQ(array.storage_order, (Dims{1, 0}));
  EXPECT_EQ(array.keys, (KeyEncoding{false, '/'}));
  EXPECT_TRUE(array.codecs.is_raw());
}

TEST(WrittenByZarrPython, consolidated_groups) {
  const auto v3 = parse_v3_group(kGroup3);
  EXPECT_EQ(v3.consolidated_arrays, (std::vector<std::string>{"x/y"}));
  EXPECT_FALSE(v3.consolidated_malformed);
  const auto v2 = parse_v2_group(R"({"zarr_format":2})", kAttributes2, kConsolidated2);
  EXPECT_EQ(v2.consolidated_arrays, (std::vector<std::string>{"x/y"}));
  EXPECT_FALSE(v2.consolidated_malformed);
}

}  // namespace
}  // namespace damacy
