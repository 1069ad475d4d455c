#include "damacy/zarr/array_info.h"

#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/store/memory_store.h"
#include "fakes/temp_dir.h"
#include "support/documents.h"
#include "support/written_documents.h"

namespace damacy {
namespace {

using namespace for_tests;
using Names = std::vector<std::string>;

ArrayInfo info_of(std::string_view key, std::string_view document) {
  auto store = std::make_shared<MemoryStore>("a.zarr");
  store->put(key, document);
  return array_info("a.zarr", store);
}

TEST(ArrayInfo, describes_an_array) {
  const auto info = info_of("zarr.json", kSharded);
  EXPECT_EQ(info.uri, "a.zarr");
  EXPECT_EQ(info.shape, (Dims{100, 70}));
  EXPECT_EQ(info.dtype, "float64");
  EXPECT_EQ(info.chunks, (Dims{10, 15}));
  EXPECT_EQ(info.shards, (Dims{40, 30}));
  EXPECT_EQ(info.zarr_format, 3);
  EXPECT_EQ(info.codecs, (Names{"sharding_indexed", "bytes", "zstd"}));
  EXPECT_TRUE(info.levels.empty());
  EXPECT_TRUE(info.supported);
  EXPECT_EQ(info.why_not, "");
}

TEST(ArrayInfo, tells_of_v2_too) {
  const auto info = info_of(".zarray", kBlosc2);
  EXPECT_EQ(info.dtype, "float32");
  EXPECT_EQ(info.shards, std::nullopt);
  EXPECT_EQ(info.zarr_format, 2);
  EXPECT_EQ(info.codecs, (Names{"blosc"}));
}

TEST(ArrayInfo, names_the_levels_of_an_image) {
  MemoryStore store;
  auto shared = std::make_shared<MemoryStore>("a.zarr");
  shared->put("zarr.json", R"({"zarr_format":3,"node_type":"group","attributes":
      {"multiscales":[{"datasets":[{"path":"0"},{"path":"1"}]}]}})");
  shared->put("0/zarr.json", v3_document({}));
  EXPECT_EQ(array_info("a.zarr", shared).levels, (Names{"0", "1"}));
}

TEST(ArrayInfo, says_that_there_is_no_conversion_into_batches) {
  const auto info = info_of("zarr.json", kComplex);
  EXPECT_FALSE(info.supported);
  EXPECT_EQ(info.why_not, "no batch conversion for complex64: read it through zarr-python and damacy.zarr");
  EXPECT_EQ(info.dtype, "complex64");
  EXPECT_EQ(info.chunks, (Dims{4, 3}));
}

TEST(ArrayInfo, describes_an_array_that_cannot_be_read) {
  const auto text = info_of("zarr.json", kString);
  EXPECT_FALSE(text.supported);
  EXPECT_EQ(text.why_not,
            "a.zarr: zarr.json: /data_type: data type 'fixed_length_utf32' is not supported (decode error, data-type)");
  EXPECT_EQ(text.dtype, "fixed_length_utf32");
  EXPECT_EQ(text.shape, (Dims{3}));
  EXPECT_EQ(text.chunks, (Dims{3}));
  EXPECT_EQ(text.codecs, (Names{"bytes", "zstd"}));

  const auto packed =
      info_of(".zarray", v2_document({{"filters", R"([{"id":"zfpy"}])"}, {"compressor", R"({"id":"bz2"})"}}));
  EXPECT_NE(packed.why_not.find("codec 'zfpy' is not supported"), std::string::npos);
  EXPECT_EQ(packed.codecs, (Names{"zfpy", "bz2"}));
  EXPECT_EQ(packed.dtype, "<i2");
  EXPECT_EQ(packed.zarr_format, 2);
  EXPECT_EQ(info_of(".zarray", kDelta2).codecs, (Names{"delta"}));
}

TEST(ArrayInfo, finds_the_innermost_chunks_of_nested_shards) {
  const auto info = info_of("zarr.json", kNested);
  EXPECT_TRUE(info.supported) << info.why_not;
  EXPECT_EQ(info.shards, (Dims{32, 32}));
  EXPECT_EQ(info.chunks, (Dims{8, 8}));
  EXPECT_EQ(info.codecs, (Names{"sharding_indexed", "sharding_indexed", "bytes"}));
}

TEST(ArrayInfo, chunks_are_in_the_arrays_axes_also_when_a_codec_is_unknown) {
  const auto codecs = sharded({{"chunk_shape", "[3,2]"}, {"codecs", R"(["zfp"])"}});
  const auto info = info_of(
      "zarr.json", v3_document({{"codecs", formatted(R"([{{"name":"transpose","configuration":{{"order":[1,0]}}}},{})",
                                                     codecs.substr(1))}}));
  EXPECT_EQ(info.chunks, (Dims{2, 3}));
  EXPECT_EQ(info.codecs, (Names{"transpose", "sharding_indexed", "zfp"}));
}

TEST(ArrayInfo, leaves_out_what_it_does_not_understand) {
  const auto info = info_of(
      "zarr.json", v3_document({{"chunk_grid", R"({"name":"hexagonal"})"}, {"data_type", R"({"name":"r16"})"}}));
  EXPECT_FALSE(info.supported);
  EXPECT_EQ(info.dtype, "r16");
  EXPECT_TRUE(info.chunks.empty());
  EXPECT_EQ(info_of(".zarray", v2_document({{"dtype", R"([["a","<i2"]])"}})).dtype, "structured");
}

TEST(ArrayInfo, throws_what_is_wrong_or_missing) {
  EXPECT_EQ(refusal_of([] { info_of("zarr.json", "{"); }), wrong("json", ""));
  EXPECT_EQ(refusal_of([] { info_of("zarr.json", v3_document({{"shape", "7"}})); }), wrong("metadata", "/shape"));
  EXPECT_EQ(refusal_of([] { info_of("other", ""); }), (Refusal{Status::notfound, ErrorKind::plain, "no-metadata", ""}));
  EXPECT_EQ(refusal_of([] { std::ignore = array_info("s3://a/b"); }).reason, "uri");
}

TEST(ArrayInfo, looks_into_directories) {
  const TempDir dir;
  dir.put("zarr.json", v3_document({}));
  EXPECT_EQ(array_info(dir.path()).dtype, "int16");
  EXPECT_EQ(array_info("file://" + dir.path()).dtype, "int16");
}

}  // namespace
}  // namespace damacy
