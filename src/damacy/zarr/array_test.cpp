#include "damacy/zarr/array.h"
#include "damacy/core/formatted.h"
#include "damacy/zarr/metadata.h"

#include <gtest/gtest.h>

#include "damacy/core/limits.h"
#include "support/documents.h"

namespace damacy {
namespace {

using for_tests::sharded;
using for_tests::v2_document;
using for_tests::v3_document;

Array array_of(ArrayMetadata metadata, std::string path = "") {
  return Array("a.zarr", nullptr, std::move(path), "zarr.json", {}, std::move(metadata), {});
}

Array with_keys(std::string encoding) {
  return array_of(
      parse_v3_array(v3_document({{"shape", "[100,100,100]"},
                                  {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[2,2,2]}})"},
                                  {"chunk_key_encoding", encoding}})));
}

TEST(Array, names_chunks_by_every_encoding) {
  const Dims index{1, 23, 45};
  EXPECT_EQ(with_keys(R"("default")").key_of_shard(index), "c/1/23/45");
  EXPECT_EQ(with_keys(R"({"name":"default","configuration":{"separator":"."}})").key_of_shard(index), "c.1.23.45");
  EXPECT_EQ(with_keys(R"("v2")").key_of_shard(index), "1.23.45");
  EXPECT_EQ(with_keys(R"({"name":"v2","configuration":{"separator":"/"}})").key_of_shard(index), "1/23/45");
}

TEST(Array, reads_coordinates_from_keys) {
  const Array array = with_keys(R"({"name":"default","configuration":{"separator":"."}})");
  EXPECT_EQ(array.coordinates_in_key("some/array/c.12.3.4"), (Dims{12, 3, 4}));
  EXPECT_FALSE(array.coordinates_in_key("some/array/c.x.3.4"));
}

TEST(Array, names_the_only_chunk_without_axes) {
  const auto scalar = [](std::string encoding) {
    return array_of(
        parse_v3_array(v3_document({{"shape", "[]"},
                                    {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[]}})"},
                                    {"chunk_key_encoding", encoding}})),
        "a/b");
  };
  EXPECT_EQ(scalar(R"("default")").key_of_shard({}), "a/b/c");
  EXPECT_EQ(scalar(R"("v2")").key_of_shard({}), "a/b/0");
  EXPECT_EQ(scalar(R"("v2")").grid(), Dims{});
  EXPECT_EQ(scalar(R"("v2")").metadata().shards.size(), 0u);
  EXPECT_EQ(scalar(R"("v2")").box_of_chunk({}), Box{});
}

TEST(Array, names_begin_with_the_path_below_the_store) {
  EXPECT_EQ(array_of(parse_v2_array(v2_document({})), "s/0").key_of_shard({2, 0}), "s/0/2.0");
}

TEST(Array, grids_cover_the_array_and_chunks_keep_their_size) {
  const Array array = array_of(parse_v3_array(v3_document({})));
  EXPECT_EQ(array.grid(), (Dims{3, 3}));
  EXPECT_EQ(array.shard_grid(), (Dims{3, 3}));
  EXPECT_EQ(array.box_of_chunk({2, 2}), (Box{{8, 6}, {12, 9}}));
  EXPECT_EQ(array.chunk_strides(), (Dims{6, 2}));
  EXPECT_EQ(array.max_encoded_chunk_bytes(), 2 * 24 + 65536u);
}

TEST(Array, an_axis_without_extent_has_no_chunks) {
  EXPECT_EQ(array_of(parse_v3_array(v3_document({{"shape", "[0,7]"}}))).grid(), (Dims{0, 3}));
}

TEST(Array, column_major_chunks_have_their_strides_turned_round) {
  EXPECT_EQ(array_of(parse_v2_array(v2_document({{"order", "\"F\""}}))).chunk_strides(), (Dims{2, 8}));
}

Array sharded_array(std::string codecs) {
  return array_of(
      parse_v3_array(v3_document({{"shape", "[100,100]"},
                                  {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[8,9]}})"},
                                  {"codecs", codecs}})));
}

TEST(Array, shards_in_shards_have_an_index_each) {
  // Objects of (24, 12), in them shards of (8, 6) whose axes are swapped, in those chunks of (4, 2).
  const auto inner = sharded({{"chunk_shape", "[2,4]"}});
  const Array array = array_of(parse_v3_array(v3_document(
      {{"shape", "[100,100]"},
       {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[24,12]}})"},
       {"codecs", sharded({{"chunk_shape", "[8,6]"},
                           {"codecs", formatted(R"([{{"name":"transpose","configuration":{{"order":[1,0]}}}},{})",
                                                inner.substr(1))}})}})));
  EXPECT_EQ(array.grid(), (Dims{25, 50}));
  EXPECT_EQ(array.shard_grid(), (Dims{13, 17}));
  EXPECT_EQ(array.entries_of(0), 6u);
  EXPECT_EQ(array.entries_of(1), 6u);
  const Dims chunk{11, 10};  // element (44, 20): object (1, 1), shard (5, 3), chunk (1, 1) of (2, 3) in it
  EXPECT_EQ(array.shard_of_chunk(chunk), (Dims{5, 3}));
  EXPECT_EQ(array.key_of_shard({5, 3}), "c/1/1");
  EXPECT_EQ(array.first_chunk_of({5, 3}), (Dims{10, 9}));
  EXPECT_EQ(array.entry_at(0, chunk), 5u);  // (2, 1) of (3, 2)
  EXPECT_EQ(array.entry_at(1, chunk), 3u);  // (1, 1) of (3, 2), column first
  EXPECT_EQ(array.index_in_shard(chunk), 3u);
  EXPECT_EQ(array.chunk_of_entry(1, 3, {10, 9}), chunk);
  EXPECT_EQ(array.chunk_of_entry(0, 5, chunk), (Dims{10, 9}));
  EXPECT_EQ(array.chunk_of_entry(0, 0, chunk), (Dims{6, 6}));
}

TEST(Array, a_shard_holds_chunks_in_c_order) {
  const Array array = sharded_array(sharded({}));  // chunks of (2, 3)
  EXPECT_EQ(array.grid(), (Dims{50, 34}));
  EXPECT_EQ(array.shard_grid(), (Dims{13, 12}));
  EXPECT_EQ(array.entries_of(0), 12u);
  EXPECT_EQ(array.shard_of_chunk({5, 4}), (Dims{1, 1}));
  EXPECT_EQ(array.index_in_shard({5, 4}), 4u);  // (1, 1) of (4, 3)
  EXPECT_EQ(array.index_in_shard({7, 5}), 11u);
  EXPECT_EQ(array.box_of_chunk({5, 4}), (Box{{10, 12}, {12, 15}}));
}

TEST(Array, a_transposed_shard_counts_its_chunks_in_its_own_axes) {
  const auto inner = sharded({{"chunk_shape", "[3,2]"}});
  const Array array =
      sharded_array(formatted(R"([{{"name":"transpose","configuration":{{"order":[1,0]}}}},{})", inner.substr(1)));
  EXPECT_EQ(array.metadata().chunk_shape, (Dims{2, 3}));
  EXPECT_EQ(array.index_in_shard({1, 0}), 1u);
  EXPECT_EQ(array.index_in_shard({0, 1}), 4u);  // (1, 0) of (3, 4)
  EXPECT_EQ(array.chunk_strides(), (Dims{2, 4}));
  EXPECT_EQ(array.key_of_shard({1, 2}), "c/1/2");
}

}  // namespace
}  // namespace damacy
