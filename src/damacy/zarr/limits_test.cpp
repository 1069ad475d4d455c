// Each limit on an array document at its value - 1, its value, its value + 1.
#include "damacy/core/limits.h"

#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/zarr/metadata.h"
#include "support/documents.h"
#include "support/error_of.h"

namespace damacy {
namespace {

using for_tests::accepted;
using for_tests::over_limit;
using for_tests::Refusal;
using for_tests::refusal_of;
using for_tests::sharded;
using for_tests::v2_document;
using for_tests::v3_document;

std::string list_of(std::size_t count, std::string value) {
  std::string list = "[";
  for (std::size_t i = 0; i < count; ++i) list += formatted("{}{}", i > 0 ? "," : "", value);
  return list + "]";
}

std::string regular(std::string chunk_shape) {
  return formatted(R"({{"name":"regular","configuration":{{"chunk_shape":{}}}}})", chunk_shape);
}

// One byte per element; one axis by default.
Refusal v3_of(std::string shape, std::string chunk_shape, std::string dtype = "uint8",
              std::string codecs = R"(["bytes"])") {
  return refusal_of([&] {
    parse_v3_array(v3_document({{"shape", shape},
                                {"chunk_grid", regular(chunk_shape)},
                                {"data_type", formatted("\"{}\"", dtype)},
                                {"codecs", codecs}}));
  });
}
Refusal v2_of(std::string shape, std::string chunks, std::string dtype = "|u1") {
  return refusal_of([&] {
    parse_v2_array(v2_document({{"shape", shape}, {"chunks", chunks}, {"dtype", formatted("\"{}\"", dtype)}}));
  });
}

const std::string kChunkShape = "/chunk_grid/configuration/chunk_shape";
const std::string kLittle = R"([{"name":"bytes","configuration":{"endian":"little"}}])";

TEST(Limits, bytes_of_an_array_document) {
  const auto padded = [](std::string document, std::size_t bytes) {
    return refusal_of([&] {
      document.resize(bytes, ' ');
      document.starts_with(R"({"zarr_format":3)") ? parse_v3_array(document) : parse_v2_array(document);
    });
  };
  for (const auto& document : {v3_document({}), v2_document({})}) {
    EXPECT_EQ(padded(document, Limits::array_document_bytes - 1), accepted());
    EXPECT_EQ(padded(document, Limits::array_document_bytes), accepted());
    EXPECT_EQ(padded(document, Limits::array_document_bytes + 1), over_limit(""));
  }
}

TEST(Limits, bytes_of_a_group_document) {
  const auto padded = [](std::string document, std::size_t bytes) {
    document.resize(bytes, ' ');
    return document;
  };
  const std::string v3 = R"({"zarr_format":3,"node_type":"group"})", v2 = R"({"zarr_format":2})";
  for (const std::size_t more : {-1, 0}) {
    const auto bytes = Limits::group_document_bytes + more;
    EXPECT_EQ(refusal_of([&] { parse_v3_group(padded(v3, bytes)); }), accepted());
    EXPECT_EQ(refusal_of([&] { parse_v2_group(v2, padded("{}", bytes), ""); }), accepted());
  }
  const auto bytes = Limits::group_document_bytes + 1;
  EXPECT_EQ(refusal_of([&] { parse_v3_group(padded(v3, bytes)); }), over_limit(""));
  EXPECT_EQ(refusal_of([&] { parse_v2_group(padded(v2, bytes), "", ""); }), over_limit(""));
  EXPECT_EQ(refusal_of([&] { parse_v2_group(v2, padded("{}", bytes), ""); }), over_limit(""));
  EXPECT_TRUE(parse_v2_group(v2, "", padded("{}", bytes)).consolidated_malformed);
}

TEST(Limits, rank) {
  const auto of_rank = [](std::size_t rank) { return v3_of(list_of(rank, "1"), list_of(rank, "1")); };
  EXPECT_EQ(of_rank(Limits::rank - 1), accepted());
  EXPECT_EQ(of_rank(Limits::rank), accepted());
  EXPECT_EQ(of_rank(Limits::rank + 1), over_limit("/shape"));
  EXPECT_EQ(v3_of("[1]", list_of(Limits::rank + 1, "1")), over_limit(kChunkShape));
  EXPECT_EQ(v2_of(list_of(Limits::rank, "1"), list_of(Limits::rank, "1")), accepted());
  EXPECT_EQ(v2_of(list_of(Limits::rank + 1, "1"), list_of(Limits::rank + 1, "1")), over_limit("/shape"));
}

TEST(Limits, extents) {
  EXPECT_EQ(v3_of("[9223372036854775806]", "[1]"), accepted());
  EXPECT_EQ(v3_of("[9223372036854775807]", "[1]"), accepted());
  EXPECT_EQ(v3_of("[9223372036854775808]", "[1]"), over_limit("/shape/0"));
  EXPECT_EQ(v3_of("[1]", "[99999999999999999999]"), over_limit(kChunkShape + "/0"));
  EXPECT_EQ(v2_of("[9223372036854775807]", "[1]"), accepted());
  EXPECT_EQ(v2_of("[9223372036854775808]", "[1]"), over_limit("/shape/0"));
}

TEST(Limits, elements_and_bytes_of_an_array) {
  // 2^63 - 1 = 7 · 1317624576693539401.
  EXPECT_EQ(v3_of("[7,1317624576693539401]", "[1,1]"), accepted());
  EXPECT_EQ(v3_of("[4611686018427387904,2]", "[1,1]"), over_limit("/shape"));
  EXPECT_EQ(v3_of("[4611686018427387903,2]", "[1,1]"), accepted());
  EXPECT_EQ(v3_of("[4611686018427387903]", "[1]", "int16", kLittle), accepted());
  EXPECT_EQ(v3_of("[4611686018427387904]", "[1]", "int16", kLittle), over_limit("/shape"));
  EXPECT_EQ(v2_of("[4611686018427387903]", "[1]", "<i2"), accepted());
  EXPECT_EQ(v2_of("[4611686018427387904]", "[1]", "<i2"), over_limit("/shape"));
}

TEST(Limits, an_empty_array_has_no_bytes_whatever_its_other_extents) {
  EXPECT_EQ(v3_of("[4611686018427387904,4611686018427387904,0]", "[1,1,1]"), accepted());
  EXPECT_EQ(v3_of("[0,4611686018427387904,4611686018427387904]", "[1,1,1]"), accepted());
}

TEST(Limits, the_grid_does_not_reach_beyond_the_extents_that_can_be_named) {
  EXPECT_EQ(v3_of("[9223372036854775807]", "[7]"), accepted());
  EXPECT_EQ(v3_of("[9223372036854775807]", "[8]"), over_limit(kChunkShape));
  EXPECT_EQ(v3_of("[9223372036854775800]", "[8]"), accepted());
}

TEST(Limits, bytes_of_a_chunk) {
  EXPECT_EQ(v3_of("[1]", "[2147483646]"), accepted());
  EXPECT_EQ(v3_of("[1]", "[2147483647]"), accepted());
  EXPECT_EQ(v3_of("[1]", "[2147483648]"), over_limit(kChunkShape));
  EXPECT_EQ(v3_of("[1,1]", "[65536,32767]"), accepted());
  EXPECT_EQ(v3_of("[1,1]", "[65536,32768]"), over_limit(kChunkShape));
  EXPECT_EQ(v3_of("[1]", "[1073741823]", "int16", kLittle), accepted());
  EXPECT_EQ(v3_of("[1]", "[1073741824]", "int16", kLittle), over_limit(kChunkShape));
  EXPECT_EQ(v2_of("[1]", "[2147483647]"), accepted());
  EXPECT_EQ(v2_of("[1]", "[2147483648]"), over_limit("/chunks"));
}

std::string shards_of(std::string chunk_shape) {
  return sharded({{"chunk_shape", chunk_shape}, {"codecs", R"(["bytes"])"}});
}

TEST(Limits, entries_of_a_shard_index) {
  const std::string inner = "/codecs/0/configuration/chunk_shape";
  EXPECT_EQ(v3_of("[1]", "[1048575]", "uint8", shards_of("[1]")), accepted());
  EXPECT_EQ(v3_of("[1]", "[1048576]", "uint8", shards_of("[1]")), accepted());
  EXPECT_EQ(v3_of("[1]", "[1048577]", "uint8", shards_of("[1]")), over_limit(inner));
  EXPECT_EQ(v3_of("[1,1]", "[4294967296,1048576]", "uint8", shards_of("[4294967296,1048576]")), over_limit(inner));
  EXPECT_EQ(v3_of("[1,1]", "[2097152,2097152]", "uint8", shards_of("[1,1]")), over_limit(inner));
}

TEST(Limits, entries_of_an_index_in_a_shard) {
  const auto nested = [](std::string middle) {
    return sharded({{"chunk_shape", middle}, {"codecs", shards_of("[1]")}});
  };
  EXPECT_EQ(v3_of("[1]", "[1048575]", "uint8", nested("[1048575]")), accepted());
  EXPECT_EQ(v3_of("[1]", "[1048576]", "uint8", nested("[1048576]")), accepted());
  EXPECT_EQ(v3_of("[1]", "[1048577]", "uint8", nested("[1048577]")),
            over_limit("/codecs/0/configuration/codecs/0/configuration/chunk_shape"));
}

TEST(Limits, bytes_of_a_shard_that_is_encoded_as_a_whole) {
  const auto then_zstd = [](std::string list) { return formatted(R"({},"zstd"])", list.substr(0, list.size() - 1)); };
  EXPECT_EQ(v3_of("[1]", "[2147483646]", "uint8", then_zstd(shards_of("[2147483646]"))), accepted());
  EXPECT_EQ(v3_of("[1]", "[2147483647]", "uint8", then_zstd(shards_of("[2147483647]"))), accepted());
  EXPECT_EQ(v3_of("[1]", "[2147483648]", "uint8", then_zstd(shards_of("[1073741824]"))), over_limit(kChunkShape));
  const std::string inner = then_zstd(shards_of("[1073741824]"));
  EXPECT_EQ(v3_of("[1]", "[4294967296]", "uint8", sharded({{"chunk_shape", "[2147483648]"}, {"codecs", inner}})),
            over_limit("/codecs/0/configuration/chunk_shape"));
}

TEST(Limits, bytes_of_a_shard) {
  // Chunks of 2^31 - 1 bytes are legal; 2^20 of them reach to 2^51, so only the shard's own product can overflow.
  EXPECT_EQ(v3_of("[1,1]", "[4611686018427387904,1]", "uint8", shards_of("[4611686018427387904,1]")),
            over_limit("/codecs/0/configuration/chunk_shape"));
  EXPECT_EQ(v3_of("[1,1]", "[4611686018427387904,2]", "uint8", shards_of("[1,1]")), over_limit(kChunkShape));
  EXPECT_EQ(v3_of("[1]", "[2147483647000]", "uint8", shards_of("[2147483647]")), accepted());
}

TEST(Limits, codecs_of_an_array_whatever_list_they_are_in) {
  const auto crcs = [](std::size_t count) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) list += R"(,"crc32c")";
    return list;
  };
  const auto chain = [&](std::size_t count) { return formatted(R"(["bytes"{}])", crcs(count - 1)); };
  const auto v3 = [](std::string codecs) { return v3_of("[1]", "[1]", "uint8", codecs); };
  EXPECT_EQ(v3(chain(Limits::codecs - 1)), accepted());
  EXPECT_EQ(v3(chain(Limits::codecs)), accepted());
  EXPECT_EQ(v3(chain(Limits::codecs + 1)), over_limit("/codecs"));
  const auto in_shard = [&](std::size_t count) { return sharded({{"chunk_shape", "[1]"}, {"codecs", chain(count)}}); };
  EXPECT_EQ(v3(in_shard(Limits::codecs - 1)), accepted());
  EXPECT_EQ(v3(in_shard(Limits::codecs)), over_limit("/codecs/0/configuration/codecs"));
  const auto of_index = [&](std::size_t count) {
    const std::string codecs = formatted("{}{}]", kLittle.substr(0, kLittle.size() - 1), crcs(count));
    return sharded({{"chunk_shape", "[1]"}, {"codecs", R"(["bytes"])"}, {"index_codecs", codecs}});
  };
  EXPECT_EQ(v3(of_index(Limits::codecs)), accepted());
  EXPECT_EQ(v3(of_index(Limits::codecs + 1)), over_limit("/codecs/0/configuration/index_codecs"));
  const auto filters = [](std::size_t count) {
    return refusal_of([&] {
      parse_v2_array(v2_document({{"filters", list_of(count, R"({"id":"crc32c"})")}, {"compressor", "null"}}));
    });
  };
  EXPECT_EQ(filters(Limits::codecs), accepted());
  EXPECT_EQ(filters(Limits::codecs + 1), over_limit("/filters"));

  for (const std::size_t many : {Limits::codecs + 1, std::uint64_t{1000}}) {
    const std::string numbers = formatted("{} codecs, limit {}", many, Limits::codecs);
    EXPECT_NE(error_of([&] { parse_v3_array(v3_document({{"codecs", chain(many)}})); }).message().find(numbers),
              std::string::npos);
  }
}

}  // namespace
}  // namespace damacy
