#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/zarr/metadata.h"
#include "support/documents.h"

namespace damacy {
namespace {

using for_tests::sharded;
using for_tests::v3_document;

constexpr bool kLittle = std::endian::native == std::endian::little;

std::vector<CodecId> ids_of(const ArrayMetadata& array) {
  std::vector<CodecId> ids;
  for (const CodecSpec& codec : array.codecs.codecs()) ids.push_back(codec.id);
  return ids;
}

TEST(V3Array, reads_the_plainest_document) {
  const auto array = parse_v3_array(v3_document({}));
  EXPECT_EQ(array.zarr_format, 3);
  EXPECT_EQ(array.shape, (Dims{10, 7}));
  EXPECT_EQ(array.dtype, Dtype::i16);
  EXPECT_EQ(array.chunk_shape, (Dims{4, 3}));
  EXPECT_EQ(array.shard_shape, (Dims{4, 3}));
  EXPECT_TRUE(array.shards.empty());
  EXPECT_EQ(array.storage_order, (Dims{0, 1}));
  EXPECT_EQ(array.keys, (KeyEncoding{true, '/'}));
  EXPECT_EQ(array.swap_bytes, !kLittle);
  EXPECT_EQ(ids_of(array), (std::vector{CodecId::zstd}));
  EXPECT_EQ(array.codec_names, (std::vector<std::string>{"bytes", "zstd"}));
  EXPECT_FALSE(array.separator_was_absent);
}

TEST(V3Array, knows_every_data_type) {
  for (int i = 0; i <= static_cast<int>(Dtype::complex128); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const bool is_pair = dtype == Dtype::complex64 || dtype == Dtype::complex128;
    const std::string fill = dtype == Dtype::boolean ? "false" : is_pair ? "[0,0]" : "0";
    const std::string name(name_of(dtype));
    EXPECT_EQ(parse_v3_array(v3_document({{"data_type", formatted("\"{}\"", name)}, {"fill_value", fill}})).dtype,
              dtype);
    EXPECT_EQ(parse_v3_array(v3_document({{"data_type", formatted(R"({{"name":"{}","configuration":{{}}}})", name)},
                                          {"fill_value", fill}}))
                  .dtype,
              dtype);
  }
  EXPECT_EQ(parse_v3_array(v3_document({{"data_type", R"("complex_float32")"}, {"fill_value", "[0,0]"}})).dtype,
            Dtype::complex64);
  EXPECT_EQ(parse_v3_array(v3_document({{"data_type", R"("complex_float64")"}, {"fill_value", "[0,0]"}})).dtype,
            Dtype::complex128);
  const auto time = [](std::string name) {
    return formatted(R"({{"name":"{}","configuration":{{"unit":"us","scale_factor":10}}}})", name);
  };
  EXPECT_EQ(parse_v3_array(v3_document({{"data_type", time("numpy.datetime64")}})).dtype, Dtype::datetime64);
  EXPECT_EQ(parse_v3_array(v3_document({{"data_type", time("numpy.timedelta64")}})).dtype, Dtype::timedelta64);
}

TEST(V3Array, key_encodings_have_defaults_of_their_own) {
  const auto keys = [](std::string encoding) {
    return parse_v3_array(v3_document({{"chunk_key_encoding", encoding}})).keys;
  };
  EXPECT_EQ(keys(R"({"name":"default"})"), (KeyEncoding{true, '/'}));
  EXPECT_EQ(keys(R"({"name":"default","configuration":{"separator":"."}})"), (KeyEncoding{true, '.'}));
  EXPECT_EQ(keys(R"("v2")"), (KeyEncoding{false, '.'}));
  EXPECT_EQ(keys(R"({"name":"v2","configuration":{"separator":"/"},"must_understand":true})"),
            (KeyEncoding{false, '/'}));
}

TEST(V3Array, a_rectilinear_grid_of_plain_integers_is_regular) {
  const auto array = parse_v3_array(v3_document(
      {{"chunk_grid", R"({"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[5,2]}})"}}));
  EXPECT_EQ(array.chunk_shape, (Dims{5, 2}));
}

TEST(V3Array, a_chunk_may_be_larger_than_the_array_and_an_extent_may_be_zero) {
  const auto array = parse_v3_array(v3_document({{"shape", "[0,2]"}}));
  EXPECT_EQ(array.shape, (Dims{0, 2}));
  EXPECT_EQ(array.chunk_shape, (Dims{4, 3}));
}

TEST(V3Array, zero_dimensions_are_one_chunk_of_one_element) {
  const auto array = parse_v3_array(
      v3_document({{"shape", "[]"}, {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[]}})"}}));
  EXPECT_EQ(array.chunk_elements(), 1);
  EXPECT_TRUE(array.storage_order.empty());
}

TEST(V3Array, reads_a_sharding_codec) {
  const auto array = parse_v3_array(v3_document({{"codecs", sharded({{"index_location", R"("start")"}})}}));
  EXPECT_EQ(array.shard_shape, (Dims{4, 3}));
  EXPECT_EQ(array.chunk_shape, (Dims{2, 3}));
  EXPECT_EQ(array.shards.at(0).index, (ShardIndexLayout{.at_end = false, .big_endian = false, .checksums = 1}));
  EXPECT_EQ(ids_of(array), (std::vector{CodecId::zstd}));
  EXPECT_EQ(array.codec_names, (std::vector<std::string>{"sharding_indexed", "bytes", "zstd"}));
}

TEST(V3Array, index_codecs_may_be_big_endian_and_have_any_number_of_checksums) {
  const auto layout = [](std::string index_codecs) {
    return parse_v3_array(v3_document({{"codecs", sharded({{"index_codecs", index_codecs}})}})).shards.at(0).index;
  };
  EXPECT_EQ(layout(R"([{"name":"bytes","configuration":{"endian":"big"}}])"), (ShardIndexLayout{true, true, 0}));
  EXPECT_EQ(layout(R"([{"name":"bytes","configuration":{"endian":"little"}},"crc32c",{"name":"crc32c"}])"),
            (ShardIndexLayout{true, false, 2}));
}

std::string transpose(std::string order) {
  return formatted(R"({{"name":"transpose","configuration":{{"order":{}}}}})", order);
}

// Shape, chunks and codecs of three axes.
ArrayMetadata three_axes(std::string chunk_shape, std::string codecs) {
  return parse_v3_array(v3_document(
      {{"shape", "[100,100,100]"},
       {"chunk_grid", formatted(R"({{"name":"regular","configuration":{{"chunk_shape":{}}}}})", chunk_shape)},
       {"codecs", formatted("[{}]", codecs)}}));
}

const std::string kBytes = R"({"name":"bytes","configuration":{"endian":"little"}})";

TEST(V3Array, transposes_become_the_order_in_which_elements_are_stored) {
  EXPECT_EQ(three_axes("[4,6,8]", transpose("[2,0,1]") + "," + kBytes).storage_order, (Dims{2, 0, 1}));
  EXPECT_EQ(three_axes("[4,6,8]", transpose("\"F\"") + "," + kBytes).storage_order, (Dims{2, 1, 0}));
  EXPECT_EQ(three_axes("[4,6,8]", transpose("\"C\"") + "," + kBytes).storage_order, (Dims{0, 1, 2}));
}

TEST(V3Array, several_transposes_compose) {
  // B[i] = A's axis (2,0,1)[i]; C[j] = B's axis (1,2,0)[j] = A's axis (0,1,2)[j].
  EXPECT_EQ(three_axes("[4,6,8]", transpose("[2,0,1]") + "," + transpose("[1,2,0]") + "," + kBytes).storage_order,
            (Dims{0, 1, 2}));
  EXPECT_EQ(three_axes("[4,6,8]", transpose("[2,0,1]") + "," + transpose("[2,1,0]") + "," + kBytes).storage_order,
            (Dims{1, 0, 2}));
}

std::string sharding_of(std::string chunk_shape, std::string codecs) {
  const auto list = sharded({{"chunk_shape", chunk_shape}, {"codecs", formatted("[{}]", codecs)}});
  return list.substr(1, list.size() - 2);
}

TEST(V3Array, a_transpose_before_sharding_acts_on_the_whole_shard) {
  // The shard in storage is (8, 4, 6); its chunks (2, 4, 3) are (4, 3, 2) in the array's axes.
  const auto array = three_axes("[4,6,8]", transpose("[2,0,1]") + "," + sharding_of("[2,4,3]", kBytes));
  EXPECT_EQ(array.shard_shape, (Dims{4, 6, 8}));
  EXPECT_EQ(array.chunk_shape, (Dims{4, 3, 2}));
  EXPECT_EQ(array.shards.at(0).index_order, (Dims{2, 0, 1}));
  EXPECT_EQ(array.storage_order, (Dims{2, 0, 1}));
}

TEST(V3Array, a_transpose_inside_a_shard_acts_on_the_chunk_only) {
  const auto array = three_axes("[4,6,8]", sharding_of("[2,3,4]", transpose("[2,0,1]") + "," + kBytes));
  EXPECT_EQ(array.chunk_shape, (Dims{2, 3, 4}));
  EXPECT_EQ(array.shards.at(0).index_order, (Dims{0, 1, 2}));
  EXPECT_EQ(array.storage_order, (Dims{2, 0, 1}));
}

TEST(V3Array, transposes_outside_and_inside_compose_for_elements) {
  const auto array =
      three_axes("[4,6,8]", transpose("[2,0,1]") + "," + sharding_of("[2,4,3]", transpose("[2,0,1]") + "," + kBytes));
  EXPECT_EQ(array.shards.at(0).index_order, (Dims{2, 0, 1}));
  EXPECT_EQ(array.storage_order, (Dims{1, 2, 0}));
}

TEST(V3Array, the_other_byte_order_is_swapped) {
  const auto swaps = [](std::string dtype, std::string bytes) {
    const std::string fill = dtype == "complex64" ? "[0,0]" : "0";
    return parse_v3_array(v3_document({{"data_type", formatted("\"{}\"", dtype)},
                                       {"fill_value", fill},
                                       {"codecs", formatted(R"([{{"name":"bytes","configuration":{}}}])", bytes)}}))
        .swap_bytes;
  };
  EXPECT_EQ(swaps("uint16", R"({"endian":"big"})"), kLittle);
  EXPECT_EQ(swaps("complex64", R"({"endian":"big"})"), kLittle);
  EXPECT_EQ(swaps("uint16", R"({"endian":"little"})"), !kLittle);
  EXPECT_FALSE(swaps("uint8", R"({"endian":"big"})"));
  EXPECT_FALSE(swaps("uint8", "{}"));
  EXPECT_EQ(
      parse_v3_array(
          v3_document({{"codecs", sharded({{"codecs", R"([{"name":"bytes","configuration":{"endian":"big"}}])"}})}}))
          .swap_bytes,
      kLittle);
}

TEST(V3Array, knows_every_codec_by_all_its_names) {
  const std::pair<std::string, CodecId> kNames[] = {
      {"zstd", CodecId::zstd},           {"numcodecs.zstd", CodecId::zstd},
      {"blosc", CodecId::blosc},         {"numcodecs.blosc", CodecId::blosc},
      {"gzip", CodecId::gzip},           {"numcodecs.gzip", CodecId::gzip},
      {"numcodecs.zlib", CodecId::zlib}, {"numcodecs.lz4", CodecId::lz4},
      {"crc32c", CodecId::crc32c},       {"numcodecs.crc32c", CodecId::crc32c}};
  for (const auto& [name, id] : kNames) {
    const auto array = parse_v3_array(v3_document({{"codecs", formatted("[{},\"{}\"]", kBytes, name)}}));
    ASSERT_EQ(array.codecs.codecs().size(), 1u);
    EXPECT_EQ(array.codecs.codecs()[0], (CodecSpec{id, false, name}));
  }
}

TEST(V3Array, options_of_encoders_have_no_effect_and_may_be_missing) {
  for (const std::string codec :
       {R"({"name":"zstd","configuration":{"level":-5,"checksum":true},"must_understand":false})",
        R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}})",
        R"({"name":"gzip","configuration":{}})", R"({"name":"numcodecs.lz4","configuration":{"acceleration":1}})"}) {
    EXPECT_EQ(parse_v3_array(v3_document({{"codecs", formatted("[{},{}]", kBytes, codec)}})).codecs.codecs().size(),
              1u);
  }
}

TEST(V3Array, a_checksum_may_lie_at_the_start) {
  const auto at_start = [](std::string location) {
    const auto array = parse_v3_array(
        v3_document({{"codecs", formatted(R"([{},{{"name":"numcodecs.crc32c","configuration":{{"location":{}}}}}])",
                                          kBytes, location)}}));
    return array.codecs.codecs()[0].checksum_at_start;
  };
  EXPECT_TRUE(at_start("\"start\""));
  EXPECT_FALSE(at_start("\"end\""));
}

TEST(V3Array, several_bytes_codecs_keep_their_order) {
  const auto array = parse_v3_array(v3_document({{"codecs", formatted(R"([{},"blosc","crc32c","gzip"])", kBytes)}}));
  EXPECT_EQ(ids_of(array), (std::vector{CodecId::blosc, CodecId::crc32c, CodecId::gzip}));
}

TEST(V3Array, passes_over_what_need_not_be_understood) {
  const auto array = parse_v3_array(v3_document({{"attributes", R"({"a":NaN,"a":[Infinity],"b":{"c":1e999}})"},
                                                 {"dimension_names", R"(["y",null])"},
                                                 {"storage_transformers", "[]"},
                                                 {"some.extension", R"({"must_understand":false,"x":[1]})"},
                                                 {"consolidated_metadata", R"({"must_understand":false})"}}));
  EXPECT_EQ(array.shape, (Dims{10, 7}));
  EXPECT_EQ(parse_v3_array(
                v3_document({{"attributes", "null"}, {"dimension_names", "null"}, {"storage_transformers", "null"}}))
                .shape,
            (Dims{10, 7}));
}

}  // namespace
}  // namespace damacy
