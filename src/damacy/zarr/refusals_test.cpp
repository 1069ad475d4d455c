// Every way an array document can be refused: class, reason, pointer.
#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/zarr/metadata.h"
#include "support/documents.h"

namespace damacy {
namespace {

using for_tests::accepted;
using for_tests::Member;
using for_tests::Refusal;
using for_tests::refusal_of;
using for_tests::sharded;
using for_tests::unsupported;
using for_tests::v2_document;
using for_tests::v3_document;
using for_tests::wrong;

struct Case {
  Member change;
  Refusal expected;
};

void expect_v3(std::initializer_list<Case> cases) {
  for (const Case& c : cases)
    EXPECT_EQ(refusal_of([&] { parse_v3_array(v3_document({c.change})); }), c.expected)
        << c.change.first << ": " << c.change.second;
}

void expect_v2(std::initializer_list<Case> cases) {
  for (const Case& c : cases)
    EXPECT_EQ(refusal_of([&] { parse_v2_array(v2_document({c.change})); }), c.expected)
        << c.change.first << ": " << c.change.second;
}

// Inside `configuration` of a sharding codec.
void expect_sharded(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    Refusal expected = c.expected;
    expected.pointer = formatted("/codecs/0/configuration{}", expected.pointer);
    EXPECT_EQ(refusal_of([&] { parse_v3_array(v3_document({{"codecs", sharded({c.change})}})); }), expected)
        << c.change.first << ": " << c.change.second;
  }
}

TEST(V3Refusals, not_json) {
  EXPECT_EQ(refusal_of([] { parse_v3_array("{"); }), wrong("json", ""));
  expect_v3({{{"fill_value", "nan"}, wrong("json", "/fill_value")},
             {{"fill_value", "+Infinity"}, wrong("json", "/fill_value")},
             {{"shape", "[10,]"}, wrong("json", "/shape/0")}});
}

TEST(V3Refusals, a_root_that_is_no_object) {
  for (const std::string_view root : {"[]", "null", "3", "\"array\""})
    EXPECT_EQ(refusal_of([&] { parse_v3_array(root); }), wrong("metadata", ""));
}

TEST(V3Refusals, duplicate_members) {
  expect_v3(
      {{{"x\":0,\"shape", "[1,1]"}, wrong("duplicate-key", "/shape")},
       {{"sh\\u0061pe", "[10,7]"}, wrong("duplicate-key", "/shape")},
       {{"data_type", R"({"name":"int16","name":"int16"})"}, wrong("duplicate-key", "/data_type/name")},
       {{"codecs", R"([{"name":"bytes","configuration":{"endian":"big","endian":"big"}}])"},
        wrong("duplicate-key", "/codecs/0/configuration/endian")},
       {{"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[1,1],"chunk_shape":[1,1]}})"},
        wrong("duplicate-key", "/chunk_grid/configuration/chunk_shape")},
       {{"x", R"({"must_understand":false,"must_understand":false})"}, wrong("duplicate-key", "/x/must_understand")}});
}

TEST(V3Refusals, missing_members) {
  for (const std::string name :
       {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value"})
    expect_v3({{{name, ""}, wrong("metadata", "/" + name)}});
}

TEST(V3Refusals, mistyped_members) {
  expect_v3(
      {{{"zarr_format", "2"}, wrong("metadata", "/zarr_format")},
       {{"zarr_format", "3.0"}, wrong("metadata", "/zarr_format")},
       {{"zarr_format", "3e0"}, wrong("metadata", "/zarr_format")},
       {{"zarr_format", "\"3\""}, wrong("metadata", "/zarr_format")},
       {{"node_type", R"("Array")"}, wrong("metadata", "/node_type")},
       {{"node_type", "null"}, wrong("metadata", "/node_type")},
       {{"shape", "10"}, wrong("metadata", "/shape")},
       {{"shape", "[10,-7]"}, wrong("metadata", "/shape/1")},
       {{"shape", "[10.0,7]"}, wrong("metadata", "/shape/0")},
       {{"shape", "[10,1e1]"}, wrong("metadata", "/shape/1")},
       {{"shape", "[10,true]"}, wrong("metadata", "/shape/1")},
       {{"shape", "[10,null]"}, wrong("metadata", "/shape/1")},
       {{"shape", R"(["10",7])"}, wrong("metadata", "/shape/0")},
       {{"shape", "[-0,7]"}, wrong("metadata", "/shape/0")},
       {{"shape", "[10,NaN]"}, wrong("metadata", "/shape/1")},
       {{"zarr_format", "Infinity"}, wrong("metadata", "/zarr_format")},
       {{"data_type", "16"}, wrong("metadata", "/data_type")},
       {{"data_type", "{}"}, wrong("metadata", "/data_type/name")},
       {{"data_type", R"({"name":"int16","configuration":[]})"}, wrong("metadata", "/data_type/configuration")},
       {{"data_type", R"({"name":"int16","must_understand":1})"}, wrong("metadata", "/data_type/must_understand")},
       {{"data_type", R"("numpy.datetime64")"}, wrong("metadata", "/data_type/configuration/unit")},
       {{"data_type", R"({"name":"numpy.datetime64","configuration":{"unit":"s"}})"},
        wrong("metadata", "/data_type/configuration/scale_factor")},
       {{"data_type", R"({"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":0}})"},
        wrong("metadata", "/data_type/configuration/scale_factor")},
       {{"chunk_grid", R"("regular")"}, wrong("metadata", "/chunk_grid/configuration/chunk_shape")},
       {{"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[4]}})"},
        wrong("metadata", "/chunk_grid/configuration/chunk_shape")},
       {{"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[4,0]}})"},
        wrong("metadata", "/chunk_grid/configuration/chunk_shape/1")},
       {{"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[4,null]}})"},
        wrong("metadata", "/chunk_grid/configuration/chunk_shape/1")},
       {{"chunk_grid", R"({"name":"rectilinear","configuration":{"chunk_shapes":[4,3]}})"},
        wrong("metadata", "/chunk_grid/configuration/kind")},
       {{"chunk_key_encoding", "{}"}, wrong("metadata", "/chunk_key_encoding/name")},
       {{"chunk_key_encoding", R"({"name":"default","configuration":{"separator":1}})"},
        wrong("metadata", "/chunk_key_encoding/configuration/separator")},
       {{"codecs", "{}"}, wrong("metadata", "/codecs")},
       {{"codecs", "[1]"}, wrong("metadata", "/codecs/0")},
       {{"codecs", R"([{"name":"transpose"},"bytes"])"}, wrong("metadata", "/codecs/0/configuration/order")},
       {{"attributes", "[]"}, wrong("metadata", "/attributes")},
       {{"dimension_names", R"(["y"])"}, wrong("metadata", "/dimension_names")},
       {{"dimension_names", R"(["y",1])"}, wrong("metadata", "/dimension_names/1")},
       {{"dimension_names", R"("yx")"}, wrong("metadata", "/dimension_names")},
       {{"storage_transformers", "{}"}, wrong("metadata", "/storage_transformers")}});
}

TEST(V3Refusals, unknown_members_and_storage_transformers) {
  expect_v3(
      {{{"x", "1"}, unsupported("unknown-member", "/x")},
       {{"x", "null"}, unsupported("unknown-member", "/x")},
       {{"x", "false"}, unsupported("unknown-member", "/x")},
       {{"a/b", "{}"}, unsupported("unknown-member", "/a~1b")},
       {{"x", R"({"must_understand":true})"}, unsupported("unknown-member", "/x")},
       {{"x", R"({"must_understand":"false"})"}, unsupported("unknown-member", "/x")},
       {{"x", R"([{"must_understand":false}])"}, unsupported("unknown-member", "/x")},
       {{"consolidated_metadata", "null"}, unsupported("unknown-member", "/consolidated_metadata")},
       {{"storage_transformers", R"([{"name":"x"}])"}, unsupported("storage-transformers", "/storage_transformers/0")},
       {{"storage_transformers", R"([{"name":"x","must_understand":false}])"},
        unsupported("storage-transformers", "/storage_transformers/0")}});
}

TEST(V3Refusals, grids_key_encodings_and_data_types) {
  expect_v3(
      {{{"chunk_grid", R"({"name":"hexagonal","must_understand":false})"}, unsupported("chunk-grid", "/chunk_grid")},
       {{"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[4,3],"x":0}})"},
        unsupported("chunk-grid", "/chunk_grid/configuration/x")},
       {{"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[4,3]},"x":0})"},
        unsupported("chunk-grid", "/chunk_grid/x")},
       {{"chunk_grid", R"({"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[4,[3,[2,2]]]}})"},
        unsupported("chunk-grid", "/chunk_grid/configuration/chunk_shapes/1")},
       {{"chunk_grid", R"({"name":"rectilinear","configuration":{"kind":"file","chunk_shapes":[4,3]}})"},
        unsupported("chunk-grid", "/chunk_grid/configuration/kind")},
       {{"chunk_key_encoding", R"("suffix")"}, unsupported("chunk-key-encoding", "/chunk_key_encoding")},
       {{"chunk_key_encoding", R"({"name":"default","configuration":{"separator":"-"}})"},
        unsupported("chunk-key-encoding", "/chunk_key_encoding/configuration/separator")},
       {{"chunk_key_encoding", R"({"name":"v2","configuration":{"separator":"."},"x":0})"},
        unsupported("chunk-key-encoding", "/chunk_key_encoding/x")},
       {{"chunk_key_encoding", R"({"name":"v2","configuration":{"x":"."}})"},
        unsupported("chunk-key-encoding", "/chunk_key_encoding/configuration/x")},
       {{"data_type", R"({"name":"int16","configuration":{"x":1}})"},
        unsupported("data-type", "/data_type/configuration/x")},
       {{"data_type", R"({"name":"numpy.datetime64","configuration":{"unit":"fortnight","scale_factor":1}})"},
        unsupported("data-type", "/data_type/configuration/unit")}});
  for (const std::string name : {"r16",
                                 "raw_bytes",
                                 "null_terminated_bytes",
                                 "fixed_length_utf32",
                                 "struct",
                                 "structured",
                                 "string",
                                 "bytes",
                                 "variable_length_utf8",
                                 "float8_e4m3",
                                 "float8_e5m2",
                                 "float6_e2m3fn",
                                 "float4_e2m1fn",
                                 "int2",
                                 "uint2",
                                 "int4",
                                 "uint4",
                                 "complex_bfloat16",
                                 "complex_float16",
                                 "Int16",
                                 "float128",
                                 ""})
    expect_v3({{{"data_type", formatted("\"{}\"", name)}, unsupported("data-type", "/data_type")},
               {{"data_type", formatted(R"({{"name":"{}","must_understand":false}})", name)},
                unsupported("data-type", "/data_type")}});
}

const std::string kBytes = R"({"name":"bytes","configuration":{"endian":"little"}})";

TEST(V3Refusals, codecs_by_name) {
  for (const std::string name : {"zfp",
                                 "pcodec",
                                 "reshape",
                                 "fletcher32",
                                 "numcodecs.delta",
                                 "numcodecs.fixedscaleoffset",
                                 "numcodecs.quantize",
                                 "numcodecs.astype",
                                 "vlen-utf8",
                                 "packbits",
                                 "cast_value",
                                 "scale_offset",
                                 "pickle",
                                 "numcodecs.pickle",
                                 "numcodecs.json2",
                                 "lz4",
                                 "zlib",
                                 "crc32",
                                 "adler32",
                                 "shuffle",
                                 "delta",
                                 "numcodecs.bytes",
                                 "Zstd",
                                 ""})
    expect_v3({{{"codecs", formatted("[{},\"{}\"]", kBytes, name)}, unsupported("codec", "/codecs/1")},
               {{"codecs", formatted(R"([{},{{"name":"{}","must_understand":false}}])", kBytes, name)},
                unsupported("codec", "/codecs/1")}});
}

TEST(V3Refusals, shards_in_shards_and_codecs_behind_them) {
  expect_v3({{{"codecs", sharded({{"codecs", sharded({{"chunk_shape", "[2,2]"}})}})},
              wrong("codec-chain", "/codecs/0/configuration/codecs/0/configuration/chunk_shape")},
             {{"codecs", sharded({{"codecs", sharded({{"chunk_shape", "[1,1]"}, {"index_codecs", R"(["zstd"])"}})}})},
              unsupported("index-codecs", "/codecs/0/configuration/codecs/0/configuration/index_codecs/0")}});
  const auto list = sharded({});
  const auto then = [&](std::string codec) { return formatted("{},{}]", list.substr(0, list.size() - 1), codec); };
  expect_v3({{{"codecs", then(R"("zfp")")}, unsupported("codec", "/codecs/1")},
             {{"codecs", then(kBytes)}, wrong("codec-chain", "/codecs/1")},
             {{"codecs", then(list.substr(1, list.size() - 2))}, wrong("codec-chain", "/codecs/1")},
             {{"codecs", then(R"({"name":"zstd","configuration":{"x":1}})")},
              unsupported("codec-option", "/codecs/1/configuration/x")}});
}

TEST(V3Refusals, codec_options) {
  const auto option = [](std::string codec, std::string at) {
    return Case{{"codecs", formatted("[{},{}]", kBytes, codec)}, unsupported("codec-option", "/codecs/1" + at)};
  };
  expect_v3({option(R"({"name":"zstd","configuration":{"level":1,"window":3}})", "/configuration/window"),
             option(R"({"name":"blosc","configuration":{"level":1}})", "/configuration/level"),
             option(R"({"name":"gzip","configuration":{"":1}})", "/configuration/"),
             option(R"({"name":"crc32c","configuration":{"location":"end"}})", "/configuration/location"),
             option(R"({"name":"numcodecs.crc32c","configuration":{"location":"middle"}})", "/configuration/location"),
             option(R"({"name":"zstd","id":"zstd"})", "/id")});
  expect_v3({{{"codecs", R"([{"name":"bytes","configuration":{"endian":"middle"}}])"},
              unsupported("codec-option", "/codecs/0/configuration/endian")},
             {{"codecs", R"([{"name":"bytes","configuration":{"endian":"little","x":0}}])"},
              unsupported("codec-option", "/codecs/0/configuration/x")},
             {{"codecs", formatted(R"([{{"name":"transpose","configuration":{{"order":[0,1],"x":0}}}},{}])", kBytes)},
              unsupported("codec-option", "/codecs/0/configuration/x")}});
  expect_sharded({{{"x", "0"}, unsupported("codec-option", "/x")},
                  {{"index_location", R"("middle")"}, unsupported("codec-option", "/index_location")},
                  {{"index_location", "0"}, wrong("metadata", "/index_location")}});
}

TEST(V3Refusals, checksums_shuffles_and_bitround) {
  const auto second = [](std::string codec, Refusal expected) {
    return Case{{"codecs", formatted("[{},{}]", kBytes, codec)}, expected};
  };
  expect_v3(
      {second(R"({"name":"numcodecs.crc32","configuration":{"location":"middle"}})",
              unsupported("codec-option", "/codecs/1/configuration/location")),
       second(R"({"name":"numcodecs.adler32","configuration":{"location":1}})",
              wrong("metadata", "/codecs/1/configuration/location")),
       second(R"({"name":"numcodecs.shuffle","configuration":{"elementsize":-1}})",
              wrong("metadata", "/codecs/1/configuration/elementsize")),
       second(R"({"name":"numcodecs.shuffle","configuration":{"elementsize":0}})", accepted()),
       second(R"({"name":"numcodecs.shuffle","configuration":{"elementsize":5}})", wrong("codec-chain", "/codecs")),
       second(R"({"name":"numcodecs.shuffle","configuration":{"x":2}})",
              unsupported("codec-option", "/codecs/1/configuration/x")),
       second(R"({"name":"bitround","configuration":{"keepbits":2}})", wrong("codec-chain", "/codecs/1"))});
  const auto first = [](std::string codec, Refusal expected) {
    return Case{{"codecs", formatted("[{},{}]", codec, kBytes)}, expected};
  };
  expect_v3({first(R"({"name":"bitround","configuration":{"keepbits":2}})", accepted()),
             first(R"({"name":"numcodecs.bitround","configuration":{"keepbits":2}})", accepted()),
             first(R"("bitround")", wrong("metadata", "/codecs/0/configuration/keepbits")),
             first(R"({"name":"bitround","configuration":{"keepbits":-1}})",
                   wrong("metadata", "/codecs/0/configuration/keepbits")),
             first(R"({"name":"bitround","configuration":{"keepbits":2,"x":0}})",
                   unsupported("codec-option", "/codecs/0/configuration/x"))});
}

TEST(V3Refusals, wrong_chains) {
  const auto transpose = [](std::string order) {
    return formatted(R"([{{"name":"transpose","configuration":{{"order":{}}}}},{}])", order, kBytes);
  };
  expect_v3({{{"codecs", "[]"}, wrong("codec-chain", "/codecs")},
             {{"codecs", R"(["zstd"])"}, wrong("codec-chain", "/codecs/0")},
             {{"codecs", formatted(R"(["zstd",{}])", kBytes)}, wrong("codec-chain", "/codecs/0")},
             {{"codecs", formatted("[{},{}]", kBytes, kBytes)}, wrong("codec-chain", "/codecs/1")},
             {{"codecs", formatted(R"([{},{{"name":"transpose","configuration":{{"order":[0,1]}}}}])", kBytes)},
              wrong("codec-chain", "/codecs/1")},
             {{"codecs", R"([{"name":"transpose","configuration":{"order":[1,0]}}])"}, wrong("codec-chain", "/codecs")},
             {{"codecs", R"(["bytes"])"}, wrong("codec-chain", "/codecs/0")},
             {{"codecs", R"([{"name":"bytes","configuration":{}}])"}, wrong("codec-chain", "/codecs/0")},
             {{"codecs", transpose("[0]")}, wrong("codec-chain", "/codecs/0/configuration/order")},
             {{"codecs", transpose("[0,1,2]")}, wrong("codec-chain", "/codecs/0/configuration/order")},
             {{"codecs", transpose("[0,0]")}, wrong("codec-chain", "/codecs/0/configuration/order/1")},
             {{"codecs", transpose("[0,2]")}, wrong("codec-chain", "/codecs/0/configuration/order/1")},
             {{"codecs", transpose("\"A\"")}, wrong("codec-chain", "/codecs/0/configuration/order")},
             {{"codecs", transpose("1")}, wrong("codec-chain", "/codecs/0/configuration/order")},
             {{"codecs", transpose("[0,-1]")}, wrong("metadata", "/codecs/0/configuration/order/1")}});
}

TEST(V3Refusals, shards) {
  expect_sharded(
      {{{"chunk_shape", ""}, wrong("metadata", "/chunk_shape")},
       {{"codecs", ""}, wrong("metadata", "/codecs")},
       {{"index_codecs", ""}, wrong("metadata", "/index_codecs")},
       {{"chunk_shape", "[2]"}, wrong("codec-chain", "/chunk_shape")},
       {{"chunk_shape", "[3,3]"}, wrong("codec-chain", "/chunk_shape")},
       {{"chunk_shape", "[8,3]"}, wrong("codec-chain", "/chunk_shape")},
       {{"chunk_shape", "[0,3]"}, wrong("metadata", "/chunk_shape/0")},
       {{"codecs", "[]"}, wrong("codec-chain", "/codecs")},
       {{"codecs", R"(["bytes"])"}, wrong("codec-chain", "/codecs/0")},
       {{"codecs", formatted(R"([{},"zfp"])", kBytes)}, unsupported("codec", "/codecs/1")},
       {{"index_codecs", "[]"}, unsupported("index-codecs", "/index_codecs")},
       {{"index_codecs", R"(["crc32c"])"}, unsupported("index-codecs", "/index_codecs/0")},
       {{"index_codecs", formatted(R"([{},"zstd"])", kBytes)}, unsupported("index-codecs", "/index_codecs/1")},
       {{"index_codecs", formatted(R"([{},"numcodecs.crc32c"])", kBytes)},
        unsupported("index-codecs", "/index_codecs/1")},
       {{"index_codecs", formatted("[{},{}]", kBytes, kBytes)}, unsupported("index-codecs", "/index_codecs/1")},
       {{"index_codecs", R"(["bytes"])"}, wrong("codec-chain", "/index_codecs/0")},
       {{"index_codecs", R"([{"name":"bytes","configuration":{"endian":"big","x":1}}])"},
        unsupported("codec-option", "/index_codecs/0/configuration/x")}});
}

TEST(V3Refusals, a_transposed_shard_divides_in_its_own_axes) {
  const auto shards_of = [](std::string inner) {
    const auto list = sharded({{"chunk_shape", inner}});
    return v3_document(
        {{"codecs", formatted(R"([{{"name":"transpose","configuration":{{"order":[1,0]}}}},{})", list.substr(1))}});
  };
  EXPECT_EQ(parse_v3_array(shards_of("[3,2]")).chunk_shape, (Dims{2, 3}));
  EXPECT_EQ(refusal_of([&] { parse_v3_array(shards_of("[2,3]")); }),
            wrong("codec-chain", "/codecs/1/configuration/chunk_shape"));
}

TEST(V3Refusals, fill_values) {
  expect_v3({{{"fill_value", "null"}, wrong("fill-value", "/fill_value")},
             {{"fill_value", "32768"}, wrong("fill-value", "/fill_value")},
             {{"fill_value", "\"32768\""}, wrong("fill-value", "/fill_value")},
             {{"fill_value", "\"7\""}, accepted()},
             {{"fill_value", "NaN"}, wrong("fill-value", "/fill_value")},
             {{"fill_value", "1.5"}, wrong("fill-value", "/fill_value")}});
}

TEST(V2Refusals, not_json_and_duplicates) {
  expect_v2({{{"fill_value", "nan"}, wrong("json", "/fill_value")},
             {{"x\":0,\"order", R"("C")"}, wrong("duplicate-key", "/order")},
             {{"compressor", R"({"id":"zstd","id":"zstd"})"}, wrong("duplicate-key", "/compressor/id")}});
}

TEST(V2Refusals, missing_and_mistyped_members) {
  for (const std::string name : {"zarr_format", "shape", "chunks", "dtype", "fill_value", "order"})
    expect_v2({{{name, ""}, wrong("metadata", "/" + name)}});
  expect_v2({{{"zarr_format", "3"}, wrong("metadata", "/zarr_format")},
             {{"zarr_format", "2.0"}, wrong("metadata", "/zarr_format")},
             {{"shape", "null"}, wrong("metadata", "/shape")},
             {{"shape", "[10,-1]"}, wrong("metadata", "/shape/1")},
             {{"chunks", "true"}, wrong("metadata", "/chunks")},
             {{"chunks", "null"}, wrong("metadata", "/chunks")},
             {{"chunks", "[4]"}, wrong("metadata", "/chunks")},
             {{"chunks", "[4,0]"}, wrong("metadata", "/chunks/1")},
             {{"chunks", "[4,3.0]"}, wrong("metadata", "/chunks/1")},
             {{"dtype", "2"}, wrong("metadata", "/dtype")},
             {{"dtype", R"("i2")"}, wrong("metadata", "/dtype")},
             {{"dtype", R"("|i2")"}, wrong("metadata", "/dtype")},
             {{"dtype", R"("b1")"}, wrong("metadata", "/dtype")},
             {{"dtype", R"("|M8[s]")"}, wrong("metadata", "/dtype")},
             {{"order", R"("A")"}, wrong("metadata", "/order")},
             {{"order", "null"}, wrong("metadata", "/order")},
             {{"filters", "{}"}, wrong("metadata", "/filters")},
             {{"filters", "[null]"}, wrong("metadata", "/filters/0")},
             {{"filters", "[{}]"}, wrong("metadata", "/filters/0/id")},
             {{"compressor", R"("zstd")"}, wrong("metadata", "/compressor")},
             {{"compressor", R"({"level":1})"}, wrong("metadata", "/compressor/id")},
             {{"dimension_separator", "0"}, wrong("metadata", "/dimension_separator")}});
}

TEST(V2Refusals, data_types_separators_codecs_options_and_fills) {
  for (const std::string name :
       {"\"|S5\"", "\"<U4\"", "\"|V8\"", "\"|O\"", "\"<f16\"", "\"<c32\"", "\"<i3\"", "\"<M8\"", "\"<M8[]\"",
        "\"<M8[0s]\"", "\"<M8[99999999999s]\"", "\"<m8[fortnight]\"", "\"\"", "\"<\"", "[[\"a\",\"<i2\"]]", "\"|b2\""})
    expect_v2({{{"dtype", name}, unsupported("data-type", "/dtype")}});
  for (const std::string id :
       {"zfpy", "pickle", "json2", "msgpack2", "base64", "vlen-utf8", "vlen-bytes", "numcodecs.zstd", ""})
    expect_v2(
        {{{"compressor", formatted(R"({{"id":"{}"}})", id)}, unsupported("codec", "/compressor")},
         {{"filters", formatted(R"([{{"id":"crc32c"}},{{"id":"{}"}}])", id)}, unsupported("codec", "/filters/1")}});
  expect_v2(
      {{{"dimension_separator", R"("-")"}, unsupported("chunk-key-encoding", "/dimension_separator")},
       {{"compressor", R"({"id":"crc32c","x":1})"}, unsupported("codec-option", "/compressor/x")},
       {{"filters", R"([{"id":"crc32c","location":"middle"}])"}, unsupported("codec-option", "/filters/0/location")},
       {{"fill_value", "32768"}, wrong("fill-value", "/fill_value")},
       {{"fill_value", "-Infinity"}, wrong("fill-value", "/fill_value")},
       {{"fill_value", R"("-7")"}, accepted()},
       {{"fill_value", R"("")"}, wrong("fill-value", "/fill_value")}});
}

TEST(V2Refusals, filters) {
  const auto filter = [](std::string json, Refusal expected) {
    if (!expected.pointer.empty()) expected.pointer = "/filters/0" + expected.pointer;
    return Case{{"filters", formatted("[{}]", json)}, expected};
  };
  expect_v2({filter(R"({"id":"delta","dtype":"<i2","astype":"|i1"})", accepted()),
             filter(R"({"id":"delta","dtype":"<i2","x":1})", unsupported("codec-option", "/x")),
             filter(R"({"id":"delta"})", wrong("metadata", "/dtype")),
             filter(R"({"id":"delta","dtype":"i2"})", wrong("metadata", "/dtype")),
             filter(R"({"id":"delta","dtype":"<c8"})", unsupported("data-type", "/dtype")),
             filter(R"({"id":"delta","dtype":"<M8[s]"})", unsupported("data-type", "/dtype")),
             filter(R"({"id":"delta","dtype":"|S2"})", unsupported("data-type", "/dtype")),
             filter(R"({"id":"quantize","digits":2,"dtype":"<f2","astype":"<f8"})", accepted()),
             filter(R"({"id":"quantize","digits":2,"dtype":"<f2","y":"<f8"})", unsupported("codec-option", "/y")),
             filter(R"({"id":"astype","encode_dtype":"|u1","decode_dtype":"<i2"})", accepted()),
             filter(R"({"id":"astype","encode_dtype":"|u1"})", wrong("metadata", "/decode_dtype")),
             filter(R"({"id":"fixedscaleoffset","offset":1,"scale":2.5,"dtype":"<i2"})", accepted()),
             filter(R"({"id":"fixedscaleoffset","offset":1,"dtype":"<i2"})", wrong("metadata", "/scale")),
             filter(R"({"id":"fixedscaleoffset","offset":"1","scale":1,"dtype":"<i2"})", wrong("metadata", "/offset")),
             filter(R"({"id":"fixedscaleoffset","offset":0,"scale":1e999,"dtype":"<i2"})", wrong("metadata", "/scale")),
             filter(R"({"id":"fixedscaleoffset","offset":NaN,"scale":1,"dtype":"<i2"})", wrong("metadata", "/offset")),
             filter(R"({"id":"shuffle","elementsize":2.0})", wrong("metadata", "/elementsize")),
             filter(R"({"id":"shuffle","elementsize":0})", accepted()),
             filter(R"({"id":"bitround","keepbits":3})", accepted()),
             filter(R"({"id":"bitround"})", wrong("metadata", "/keepbits")),
             filter(R"({"id":"crc32","location":"end"})", accepted())});
  // What no NumPy sum would give in the decoded type alone.
  expect_v2(
      {{{"filters", R"([{"id":"delta","dtype":"<i2","astype":"<f4"}])"}, unsupported("codec-option", "/filters/0")},
       {{"filters", R"([{"id":"delta","dtype":"<f8"}])"}, accepted()},
       {{"filters", R"([{"id":"astype","encode_dtype":"|u1","decode_dtype":"<f8"},{"id":"delta","dtype":"<i2"}])"},
        wrong("codec-chain", "/filters")}});
  EXPECT_EQ(refusal_of([] {
              parse_v2_array(v2_document({{"chunks", "[1,1]"}, {"filters", R"([{"id":"delta","dtype":"<f8"}])"}}));
            }),
            wrong("codec-chain", "/filters"));
}

TEST(Refusals, say_literally_what_is_refused) {
  try {
    parse_v3_array(v3_document({{"codecs", formatted(R"([{},"zfp"])", kBytes)}}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "codec 'zfp' is not supported");
  }
}

}  // namespace
}  // namespace damacy
