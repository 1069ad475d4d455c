// From an uri to an array.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/store/memory_store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/detail/opening.h"
#include "damacy/zarr/metadata.h"
#include "support/documents.h"
#include "support/log_records.h"
#include "support/metered_store.h"
#include "support/tiny_zarr.h"
#include "support/written_documents.h"

namespace damacy {
namespace {

using namespace for_tests;

const std::string kV3Group = R"({"zarr_format":3,"node_type":"group"})";
const std::string kV2Group = R"({"zarr_format":2})";
const std::string kTwoLevels = R"({"multiscales":[{"datasets":[{"path":"s/0"},{"path":"s/1"}]}]})";

std::shared_ptr<MemoryStore> store_with(std::initializer_list<std::pair<std::string, std::string>> objects) {
  auto store = std::make_shared<MemoryStore>("a.zarr");
  for (const auto& [key, bytes] : objects) store->put(key, bytes);
  return store;
}

std::string v3_group_with(std::string attributes) {
  return formatted(R"({{"zarr_format":3,"node_type":"group","attributes":{}}})", attributes);
}

std::optional<Error> error_of(std::shared_ptr<Store> store, const std::string& uri = "a.zarr") {
  try {
    open_array(uri, std::move(store));
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

TEST(OpenArray, opens_an_array_of_either_version) {
  const auto v3 = open_array("a.zarr", store_with({{"zarr.json", v3_document({})}}));
  EXPECT_EQ(v3->document_key(), "zarr.json");
  EXPECT_EQ(v3->uri(), "a.zarr");
  EXPECT_TRUE(v3->levels().empty());
  const auto v2 = open_array("a.zarr", store_with({{".zarray", v2_document({})}}));
  EXPECT_EQ(v2->document_key(), ".zarray");
  EXPECT_EQ(v2->metadata().zarr_format, 2);
}

TEST(OpenArray, documents_with_one_stamp_are_told_apart_by_their_text) {
  const testing::TempDir dir("one-stamp");
  const auto file = dir.path() / ".zarray";
  const auto when = std::filesystem::file_time_type::clock::now();
  const auto opened = [&](std::string dtype) {
    std::ofstream(file) << v2_document({{"dtype", std::move(dtype)}});
    std::filesystem::last_write_time(file, when);
    return open_array("a.zarr", make_file_store(dir.path().string(), 8));
  };
  const auto first = opened(R"("<u2")"), second = opened(R"("<i2")"), third = opened(R"("<u2")");
  EXPECT_EQ(first->document_stamp(), second->document_stamp());
  EXPECT_NE(first->id(), second->id());
  EXPECT_EQ(first->id(), third->id());
}

TEST(OpenArray, v3_wins_with_one_warning) {
  testing::LogRecords logged;
  const auto store = store_with({{"zarr.json", v3_document({})}, {".zarray", v2_document({})}, {".zgroup", kV2Group}});
  EXPECT_EQ(open_array("a.zarr", store)->metadata().zarr_format, 3);
  ASSERT_EQ(logged.all().size(), 1u);
  EXPECT_EQ(logged.all()[0].first, LogLevel::warn);
}

TEST(OpenArray, an_array_wins_over_a_group_in_v2) {
  EXPECT_EQ(open_array("a.zarr", store_with({{".zarray", v2_document({})}, {".zgroup", kV2Group}}))->rank(), 2u);
}

TEST(OpenArray, nothing_there_names_the_keys_tried) {
  for (const auto& store : {store_with({}), store_with({{"0/zarr.json", v3_document({})}})}) {
    const auto error = error_of(store);
    EXPECT_EQ(error->status(), Status::notfound);
    EXPECT_EQ(error->where().reason, "no-metadata");
    EXPECT_EQ(error->where().uri, "a.zarr");
    for (const auto* key : {"zarr.json", ".zarray", ".zgroup"})
      EXPECT_NE(error->message().find(key), std::string::npos) << error->message();
  }
}

TEST(OpenArray, a_folder_of_arrays_names_them) {
  const auto error = error_of(store_with({{"b/.zarray", v2_document({})}, {"a/zarr.json", v3_document({})}}));
  EXPECT_EQ(error->message(), "no zarr metadata: tried zarr.json, .zarray, .zgroup; arrays inside: a, b");
}

TEST(OpenArray, takes_level_0_of_an_image) {
  for (const auto& store :
       {store_with({{"zarr.json", v3_group_with(kTwoLevels)}, {"s/0/zarr.json", v3_document({})}}),
        store_with({{".zgroup", kV2Group}, {".zattrs", kTwoLevels}, {"s/0/.zarray", v2_document({})}})}) {
    const auto array = open_array("a.zarr", store);
    EXPECT_EQ(array->path(), "s/0");
    EXPECT_EQ(array->levels(), (std::vector<std::string>{"s/0", "s/1"}));
    EXPECT_TRUE(array->key_of_shard({0, 1}).starts_with("s/0/"));
  }
}

TEST(OpenArray, of_several_images_the_first_is_used_and_said) {
  testing::LogRecords logged;
  const std::string two = R"({"multiscales":[{"datasets":[{"path":"0"}]},{"datasets":[{"path":"1"}]}]})";
  EXPECT_EQ(
      open_array("a.zarr", store_with({{"zarr.json", v3_group_with(two)}, {"0/zarr.json", v3_document({})}}))->path(),
      "0");
  ASSERT_EQ(logged.all().size(), 1u);
  EXPECT_EQ(logged.all()[0].first, LogLevel::info);
}

TEST(OpenArray, says_once_which_codecs_are_slow) {
  testing::LogRecords logged;
  for (const auto* codecs : {R"([{"name":"bytes","configuration":{"endian":"big"}},"zstd"])",
                             R"([{"name":"bytes","configuration":{"endian":"big"}},"numcodecs.lzma","zstd",
                                 {"name":"blosc","configuration":{"cname":"snappy"}},"numcodecs.bz2"])"})
    open_array("a.zarr", store_with({{"zarr.json", v3_document({{"codecs", codecs}})}}));
  ASSERT_EQ(logged.all().size(), 1u);
  EXPECT_EQ(logged.all()[0].first, LogLevel::info);
  EXPECT_EQ(logged.all()[0].second,
            "decoded on the cores, slowly: a.zarr: numcodecs.lzma, blosc of snappy, numcodecs.bz2");
}

TEST(OpenArray, groups_may_have_several_large_documents) {
  const std::string padding(2 * Limits::array_document_bytes, ' ');
  EXPECT_EQ(open_array("a.zarr", store_with({{".zgroup", kV2Group + padding},
                                             {".zattrs", kTwoLevels + padding},
                                             {"s/0/.zarray", v2_document({})}}))
                ->path(),
            "s/0");
  const auto error =
      error_of(store_with({{".zgroup", kV2Group + padding}, {".zmetadata", std::string(kConsolidated2) + padding}}));
  EXPECT_EQ(error->message(), "is a group, not an array; arrays inside: x/y");
}

TEST(OpenArray, a_level_must_be_an_array) {
  const auto missing = error_of(store_with({{"zarr.json", v3_group_with(kTwoLevels)}}));
  EXPECT_EQ(missing->status(), Status::notfound);
  EXPECT_EQ(missing->where().reason, "no-metadata");
  const auto group = error_of(store_with({{"zarr.json", v3_group_with(kTwoLevels)},
                                          {"s/0/zarr.json", v3_group_with(kTwoLevels)},
                                          {"s/0/s/0/zarr.json", v3_document({})}}));
  EXPECT_EQ(group->status(), Status::inval);
  EXPECT_EQ(group->where().reason, "group");
  EXPECT_EQ(group->where().key, "s/0/zarr.json");
}

TEST(OpenArray, says_where_a_document_is_wrong) {
  const auto error = error_of(store_with(
      {{"zarr.json", v3_document({{"codecs", R"([{"name":"bytes","configuration":{"endian":"big"}},"zfp"])"}})}}));
  EXPECT_EQ(error->where().uri, "a.zarr");
  EXPECT_EQ(error->where().store, "a.zarr");
  EXPECT_EQ(error->where().key, "zarr.json");
  EXPECT_EQ(error->where().pointer, "/codecs/1");
  EXPECT_EQ(std::string(error->what()),
            "a.zarr: zarr.json: /codecs/1: codec 'zfp' is not supported (decode error, codec)");
  const auto attributes = error_of(store_with({{".zgroup", kV2Group}, {".zattrs", R"({"multiscales":[{}]})"}}));
  EXPECT_EQ(attributes->where().key, ".zattrs");
  EXPECT_EQ(attributes->where().pointer, "/multiscales/0/datasets");
  EXPECT_EQ(error_of(store_with({{".zgroup", "{"}, {".zattrs", "{}"}}))->where().key, ".zgroup");
}

TEST(OpenArray, compares_sizes_of_documents_before_reading_them) {
  const std::string large(Limits::array_document_bytes + 1, ' ');
  auto store = std::make_shared<MeteredStore>(store_with({{".zarray", large}}));
  const auto error = error_of(store);
  EXPECT_EQ(error->status(), Status::inval);
  EXPECT_EQ(error->where().reason, "limit");
  EXPECT_EQ(error->where().key, ".zarray");
  EXPECT_EQ(store->counts().reads, 0u);
  store =
      std::make_shared<MeteredStore>(store_with({{"zarr.json", std::string(Limits::group_document_bytes + 1, ' ')}}));
  EXPECT_EQ(error_of(store)->where().reason, "limit");
  EXPECT_EQ(store->counts().reads, 0u);
  store = std::make_shared<MeteredStore>(store_with({{"zarr.json", v3_document({}) + large}}));
  EXPECT_EQ(error_of(store)->where().reason, "limit");
}

std::string group_text(std::shared_ptr<Store> store) {
  const auto error = error_of(std::move(store));
  EXPECT_EQ(error->status(), Status::inval);
  EXPECT_EQ(error->where().reason, "group");
  return error->message();
}

TEST(GroupError, lists_arrays_inside_in_natural_order) {
  const auto store = store_with({{"zarr.json", kV3Group},
                                 {"b/zarr.json", kV3Group},
                                 {"b/10/zarr.json", v3_document({})},
                                 {"b/9/zarr.json", v3_document({})},
                                 {"b/009/.zarray", v2_document({})},
                                 {"a/zarr.json", v3_document({})},
                                 {"a/c/0/0", "chunk"},
                                 {"b/x/zarr.json", "{"},
                                 {"c/d/e/zarr.json", v3_document({})}});
  EXPECT_EQ(group_text(store), "is a group, not an array; arrays inside: a, b/009, b/9, b/10, c/d/e");
}

TEST(GroupError, shows_twenty_and_counts_the_rest) {
  const auto store = store_with({{".zgroup", kV2Group}});
  for (int i = 0; i < 24; ++i) store->put(formatted("A/{}/.zarray", i), v2_document({}));
  const auto text = group_text(store);
  EXPECT_TRUE(text.ends_with("A/18, A/19 (+4 more)")) << text;
}

TEST(GroupError, takes_the_list_from_consolidated_metadata) {
  EXPECT_EQ(group_text(store_with({{"zarr.json", std::string(kGroup3)}})),
            "is a group, not an array; arrays inside: x/y");
  EXPECT_EQ(group_text(store_with({{".zgroup", kV2Group}, {".zmetadata", std::string(kConsolidated2)}})),
            "is a group, not an array; arrays inside: x/y");
}

TEST(GroupError, walks_with_one_warning_when_consolidated_metadata_are_malformed) {
  testing::LogRecords logged;
  EXPECT_EQ(group_text(store_with({{".zgroup", kV2Group}, {".zmetadata", "["}, {"q/.zarray", v2_document({})}})),
            "is a group, not an array; arrays inside: q");
  ASSERT_EQ(logged.all().size(), 1u);
  EXPECT_EQ(logged.all()[0].first, LogLevel::warn);
}

TEST(OpenArray, a_malformed_map_of_an_images_group_is_ignored_with_one_warning) {
  testing::LogRecords logged;
  const auto store =
      store_with({{"zarr.json",
                   formatted(R"({{"zarr_format":3,"node_type":"group","attributes":{},)"
                             R"("consolidated_metadata":{{"kind":"other","must_understand":false,"metadata":{{}}}}}})",
                             kTwoLevels)},
                  {"s/0/zarr.json", v3_document({})}});
  EXPECT_EQ(open_array("a.zarr", store)->path(), "s/0");
  ASSERT_EQ(logged.all().size(), 1u);
  EXPECT_EQ(logged.all()[0].first, LogLevel::warn);
}

TEST(GroupError, says_that_an_image_inside_must_be_named) {
  const auto text = group_text(
      store_with({{"zarr.json", v3_group_with(R"({"ome":{"plate":{}}})")}, {"A/1/0/0/zarr.json", v3_document({})}}));
  EXPECT_NE(text.find("arrays inside: A/1/0/0;"), std::string::npos) << text;
  EXPECT_NE(text.find("must be named"), std::string::npos) << text;
}

TEST(GroupError, says_when_there_is_nothing_inside) {
  EXPECT_EQ(group_text(store_with({{"zarr.json", kV3Group}})), "is a group, not an array; arrays inside: none");
}

TEST(WalkArrays, goes_four_levels_deep) {
  const auto store = store_with({{"a/b/c/d/.zarray", v2_document({})}, {"a/b/c/e/f/.zarray", v2_document({})}});
  EXPECT_EQ(walk_arrays(*store), (std::vector<std::string>{"a/b/c/d"}));
}

TEST(WalkArrays, looks_at_a_thousand_directories) {
  MemoryStore store;
  for (int i = 0; i < Limits::group_list_entries + 1; ++i) store.put(formatted("a{}/.zarray", i), "{}");
  EXPECT_EQ(walk_arrays(store).size(), static_cast<std::size_t>(Limits::group_list_entries));
}

}  // namespace
}  // namespace damacy
