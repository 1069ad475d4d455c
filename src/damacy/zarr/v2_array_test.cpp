#include <gtest/gtest.h>

#include <bit>

#include "damacy/core/formatted.h"
#include "damacy/zarr/metadata.h"
#include "support/documents.h"

namespace damacy {
namespace {

using for_tests::v2_document;

constexpr bool kLittle = std::endian::native == std::endian::little;

TEST(V2Array, reads_the_plainest_document) {
  const auto array = parse_v2_array(v2_document({}));
  EXPECT_EQ(array.zarr_format, 2);
  EXPECT_EQ(array.shape, (Dims{10, 7}));
  EXPECT_EQ(array.dtype, Dtype::i16);
  EXPECT_EQ(array.chunk_shape, (Dims{4, 3}));
  EXPECT_EQ(array.shard_shape, (Dims{4, 3}));
  EXPECT_TRUE(array.shards.empty());
  EXPECT_EQ(array.storage_order, (Dims{0, 1}));
  EXPECT_EQ(array.keys, (KeyEncoding{false, '.'}));
  EXPECT_EQ(array.swap_bytes, !kLittle);
  EXPECT_EQ(array.codec_names, (std::vector<std::string>{"zstd"}));
  EXPECT_TRUE(array.separator_was_absent);
}

TEST(V2Array, order_f_stores_the_first_axis_innermost) {
  EXPECT_EQ(parse_v2_array(v2_document({{"order", "\"F\""}})).storage_order, (Dims{1, 0}));
}

TEST(V2Array, knows_every_data_type) {
  const std::pair<std::string, Dtype> kTypes[] = {{"|b1", Dtype::boolean},
                                                  {"<b1", Dtype::boolean},
                                                  {"|i1", Dtype::i8},
                                                  {">u1", Dtype::u8},
                                                  {"<i2", Dtype::i16},
                                                  {">u2", Dtype::u16},
                                                  {"<i4", Dtype::i32},
                                                  {"<u4", Dtype::u32},
                                                  {">i8", Dtype::i64},
                                                  {"<u8", Dtype::u64},
                                                  {"<f2", Dtype::f16},
                                                  {">f4", Dtype::f32},
                                                  {"<f8", Dtype::f64},
                                                  {"<c8", Dtype::complex64},
                                                  {">c16", Dtype::complex128},
                                                  {"<M8[ns]", Dtype::datetime64},
                                                  {">m8[10us]", Dtype::timedelta64}};
  for (const auto& [name, dtype] : kTypes) {
    const auto array = parse_v2_array(v2_document({{"dtype", formatted("\"{}\"", name)}, {"fill_value", "null"}}));
    EXPECT_EQ(array.dtype, dtype) << name;
    const bool is_big = name[0] == '>';
    EXPECT_EQ(array.swap_bytes, size_of(dtype) > 1 && is_big == kLittle) << name;
  }
}

TEST(V2Array, the_separator_is_a_point_unless_named) {
  const auto array = [](std::string separator) {
    return parse_v2_array(v2_document({{"dimension_separator", separator}}));
  };
  EXPECT_EQ(array("\".\"").keys, (KeyEncoding{false, '.'}));
  EXPECT_EQ(array("null").keys, (KeyEncoding{false, '.'}));
  EXPECT_EQ(array("\"/\"").keys, (KeyEncoding{false, '/'}));
  for (const std::string separator : {"\".\"", "null", "\"/\""}) EXPECT_FALSE(array(separator).separator_was_absent);
}

TEST(V2Array, with_one_axis_there_is_nothing_to_separate) {
  EXPECT_FALSE(parse_v2_array(v2_document({{"shape", "[10]"}, {"chunks", "[4]"}})).separator_was_absent);
}

TEST(V2Array, a_chunk_extent_of_zero_counts_as_one_where_nothing_is) {
  EXPECT_EQ(parse_v2_array(v2_document({{"shape", "[0,7]"}, {"chunks", "[0,3]"}})).chunk_shape, (Dims{1, 3}));
}

TEST(V2Array, filters_come_before_the_compressor) {
  const auto array = parse_v2_array(v2_document({{"filters", R"([{"id":"crc32c","location":"start"},{"id":"lz4"}])"},
                                                 {"compressor", R"({"id":"zlib","level":1,"whatever":[]})"}}));
  ASSERT_EQ(array.codecs.codecs().size(), 3u);
  EXPECT_EQ(array.codecs.codecs()[0], (CodecSpec{CodecId::crc32c, true, "crc32c"}));
  EXPECT_EQ(array.codecs.codecs()[1], (CodecSpec{CodecId::lz4, false, "lz4"}));
  EXPECT_EQ(array.codecs.codecs()[2], (CodecSpec{CodecId::zlib, false, "zlib"}));
  EXPECT_EQ(array.codec_names, (std::vector<std::string>{"crc32c", "lz4", "zlib"}));
}

TEST(V2Array, a_chain_may_be_absent_null_or_empty) {
  for (const std::string filters : {"", "null", "[]"})
    for (const std::string compressor : {"", "null"})
      EXPECT_TRUE(parse_v2_array(v2_document({{"filters", filters}, {"compressor", compressor}})).codecs.is_raw());
}

TEST(V2Array, a_checksum_may_stand_as_compressor) {
  const auto array = parse_v2_array(v2_document({{"compressor", R"({"id":"crc32c"})"}}));
  EXPECT_EQ(array.codecs.codecs()[0], (CodecSpec{CodecId::crc32c, false, "crc32c"}));
}

TEST(V2Array, other_keys_are_ignored) {
  EXPECT_EQ(parse_v2_array(v2_document({{"anything", R"({"must_understand":true,"a":1,"a":2})"}})).dtype, Dtype::i16);
}

}  // namespace
}  // namespace damacy
