#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/zarr/metadata.h"
#include "support/documents.h"

namespace damacy {
namespace {

using for_tests::accepted;
using for_tests::over_limit;
using for_tests::refusal_of;
using for_tests::unsupported;
using for_tests::wrong;

GroupMetadata v3_group(std::string attributes, std::string more = "") {
  return parse_v3_group(formatted(R"({{"zarr_format":3,"node_type":"group","attributes":{}{}}})", attributes, more));
}
GroupMetadata v2_group(std::string attributes) {
  return parse_v2_group(R"({"zarr_format":2})", attributes, "");
}

const std::string kImage =
    R"([{"version":"x","axes":[NaN],"datasets":[{"path":"s/0"},{"path":"s/1"}]},{"datasets":0}])";

void expect_levels(const GroupMetadata& group) {
  EXPECT_TRUE(group.has_multiscales);
  EXPECT_EQ(group.level_paths, (std::vector<std::string>{"s/0", "s/1"}));
  EXPECT_EQ(group.multiscales_count, 2u);
}

TEST(Group, finds_the_image_inside_or_outside_of_ome) {
  expect_levels(v3_group(formatted(R"({{"ome":{{"multiscales":{}}}}})", kImage)));
  expect_levels(v3_group(formatted(R"({{"multiscales":{}}})", kImage)));
  expect_levels(v2_group(formatted(R"({{"multiscales":{}}})", kImage)));
}

TEST(Group, ome_comes_first_unless_it_has_no_image) {
  const std::string other = R"([{"datasets":[{"path":"other"}]}])";
  expect_levels(v3_group(formatted(R"({{"multiscales":{},"ome":{{"multiscales":{}}}}})", other, kImage)));
  for (const std::string ome :
       {"[]", "{}", "null", R"({"multiscales":[]})", R"({"multiscales":{}})", R"({"multiscales":7})"})
    expect_levels(v3_group(formatted(R"({{"ome":{},"multiscales":{}}})", ome, kImage)));
}

TEST(Group, a_group_may_have_no_image) {
  for (const std::string attributes : {"{}", "null", R"({"multiscales":[]})", R"({"multiscales":null})"})
    EXPECT_FALSE(v3_group(attributes).has_multiscales);
  EXPECT_FALSE(parse_v3_group(R"({"zarr_format":3,"node_type":"group"})").has_multiscales);
  EXPECT_FALSE(parse_v2_group(R"({"zarr_format":2,"x":[]})", "", "").has_multiscales);
}

TEST(Group, says_when_there_are_images_inside) {
  for (const std::string mark : {"plate", "well", "bioformats2raw.layout"}) {
    EXPECT_TRUE(v3_group(formatted("{{\"{}\":3}}", mark)).names_images_inside);
    EXPECT_TRUE(v3_group(formatted(R"({{"ome":{{"{}":{{}}}}}})", mark)).names_images_inside);
    EXPECT_TRUE(v2_group(formatted("{{\"{}\":{{}}}}", mark)).names_images_inside);
  }
  EXPECT_FALSE(v3_group(R"({"plates":{},"x":{"plate":1}})").names_images_inside);
}

TEST(Group, v2_has_its_multiscales_at_the_top_only) {
  EXPECT_FALSE(v2_group(R"({"ome":{"multiscales":[{"datasets":[{"path":"a"}]}]}})").has_multiscales);
  const auto both =
      v2_group(R"({"ome":{"multiscales":[{"datasets":[{"path":"a"}]}]},"multiscales":[{"datasets":[{"path":"b"}]}]})");
  EXPECT_EQ(both.level_paths, (std::vector<std::string>{"b"}));
}

TEST(Group, the_path_of_the_first_level_stays_below_the_group) {
  const auto with_path = [](std::string path) {
    return refusal_of([&] { v3_group(formatted(R"({{"multiscales":[{{"datasets":[{{"path":{}}}]}}]}})", path)); });
  };
  const std::string pointer = "/attributes/multiscales/0/datasets/0/path";
  EXPECT_EQ(with_path(R"("a/b.c/...")"), accepted());
  for (const std::string path : {R"("")", R"("/")", R"("/a")", R"("a/")", R"("a//b")", R"(".")", R"("..")",
                                 R"("a/../b")", R"("./a")", R"("a\u0000")", "0", "null", "[]", "{}"})
    EXPECT_EQ(with_path(path), wrong("metadata", pointer)) << path;
}

TEST(Group, the_first_image_must_name_a_level) {
  const auto refusal = [](std::string image) {
    return refusal_of([&] { v3_group(formatted(R"({{"multiscales":[{}]}})", image)); });
  };
  EXPECT_EQ(refusal("{}"), wrong("metadata", "/attributes/multiscales/0/datasets"));
  EXPECT_EQ(refusal("7"), wrong("metadata", "/attributes/multiscales/0"));
  EXPECT_EQ(refusal(R"({"datasets":[]})"), wrong("metadata", "/attributes/multiscales/0/datasets"));
  EXPECT_EQ(refusal(R"({"datasets":{}})"), wrong("metadata", "/attributes/multiscales/0/datasets"));
  EXPECT_EQ(refusal(R"({"datasets":[{}]})"), wrong("metadata", "/attributes/multiscales/0/datasets/0/path"));
  EXPECT_EQ(refusal(R"({"datasets":[{"path":"0","path":"0"}]})"),
            wrong("duplicate-key", "/attributes/multiscales/0/datasets/0/path"));
}

TEST(Group, malformed_levels_that_are_not_read_are_left_out) {
  const auto group = v3_group(R"({"multiscales":[{"datasets":[{"path":"0"},{"path":".."},{},{"path":"3"},7]}]})");
  EXPECT_EQ(group.level_paths, (std::vector<std::string>{"0", "3"}));
}

TEST(Group, a_name_that_occurs_twice_counts_where_we_look) {
  EXPECT_EQ(refusal_of([] { v3_group(R"({"multiscales":[],"multiscales":[]})"); }),
            wrong("duplicate-key", "/attributes/multiscales"));
  EXPECT_EQ(refusal_of([] { v3_group(R"({"ome":{"multiscales":[],"multiscales":[]}})"); }),
            wrong("duplicate-key", "/attributes/ome/multiscales"));
  EXPECT_EQ(refusal_of([] { v3_group(R"({"a":1,"a":2,"b":{"c":1,"c":2}})"); }), accepted());
  EXPECT_EQ(refusal_of([] { v3_group("{}", R"(,"zarr_format":3)"); }), wrong("duplicate-key", "/zarr_format"));
}

TEST(Group, refuses_documents_like_those_of_arrays) {
  EXPECT_EQ(refusal_of([] { v3_group("{}", R"(,"x":1)"); }), unsupported("unknown-member", "/x"));
  EXPECT_EQ(refusal_of([] { v3_group("{}", R"(,"x":{"must_understand":false,"y":[{}]})"); }), accepted());
  EXPECT_EQ(refusal_of([] { v3_group("[]"); }), wrong("metadata", "/attributes"));
  EXPECT_EQ(refusal_of([] { parse_v3_group(R"({"zarr_format":3})"); }), wrong("metadata", "/node_type"));
  EXPECT_EQ(refusal_of([] { parse_v3_group(R"({"zarr_format":3,"node_type":"set"})"); }),
            wrong("metadata", "/node_type"));
  EXPECT_EQ(refusal_of([] { parse_v3_group(R"({"zarr_format":2,"node_type":"group"})"); }),
            wrong("metadata", "/zarr_format"));
  EXPECT_EQ(refusal_of([] { parse_v3_group(R"({"zarr_format":[3],"node_type":"group"})"); }),
            wrong("metadata", "/zarr_format"));
  EXPECT_EQ(refusal_of([] { parse_v2_group(R"({"zarr_format":3})", "", ""); }), wrong("metadata", "/zarr_format"));
  EXPECT_EQ(refusal_of([] { parse_v2_group("{}", "", ""); }), wrong("metadata", "/zarr_format"));
  EXPECT_EQ(refusal_of([] { v2_group("[]"); }), wrong("metadata", ""));
  EXPECT_EQ(refusal_of([] { v2_group("{"); }), wrong("json", ""));
}

TEST(Group, says_which_node_type_was_meant) {
  const auto message = [](std::string_view type) {
    try {
      parse_v3_group(formatted(R"({{"zarr_format":3,"node_type":"{}"}})", type));
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message("Array"), "node_type 'Array', expected 'array'");
  EXPECT_EQ(message("GROUP"), "node_type 'GROUP', expected 'group'");
  EXPECT_EQ(message("set"), "node_type 'set', expected 'array' or 'group'");
}

TEST(Group, knows_an_array_by_its_node_type) {
  EXPECT_TRUE(parse_v3_group(for_tests::v3_document({{"x", "1"}})).is_array);
  EXPECT_FALSE(v3_group("{}").is_array);
}

GroupMetadata consolidated3(std::string value) {
  return v3_group("{}", formatted(R"(,"consolidated_metadata":{})", value));
}

TEST(Consolidated, lists_arrays_at_any_depth) {
  const auto group = consolidated3(
      R"({"kind":"inline","must_understand":false,"metadata":{"b":{"node_type":"group"},"b/a":{"node_type":"array"},
          "c":{"node_type":"array","attributes":{"x":NaN}}}})");
  EXPECT_EQ(group.consolidated_arrays, (std::vector<std::string>{"b/a", "c"}));
  EXPECT_EQ(group.consolidated_members, (std::vector<std::string>{"b", "c"}));
  EXPECT_FALSE(consolidated3("null").consolidated_malformed);
}

TEST(Consolidated, names_outside_the_group_are_left_out) {
  const auto group = parse_v2_group(R"({"zarr_format":2})", "",
                                    R"({"zarr_consolidated_format":1,"metadata":{"../x/.zarray":{},"/y/.zarray":{},
                                        "a//b/.zarray":{},"./.zgroup":{},".zgroup":{},"k/.zgroup":{}}})");
  EXPECT_TRUE(group.consolidated_arrays.empty());
  EXPECT_EQ(group.consolidated_members, (std::vector<std::string>{"k"}));
}

TEST(Consolidated, a_malformed_map_is_ignored) {
  for (
      const std::string value :
      {"1", "[]", "{}", R"({"kind":"file","must_understand":false,"metadata":{}})",
       R"({"kind":"inline","must_understand":true,"metadata":{}})", R"({"kind":"inline","must_understand":false})",
       R"({"kind":"inline","must_understand":false,"metadata":[]})",
       R"({"kind":"inline","must_understand":false,"metadata":{"a":{"node_type":"array"},"b":{}}})",
       R"({"kind":"inline","must_understand":false,"metadata":{"a":{"node_type":"array"},"a":{"node_type":"array"}}})"}) {
    const auto group = consolidated3(value);
    EXPECT_TRUE(group.consolidated_malformed) << value;
    EXPECT_TRUE(group.consolidated_arrays.empty());
  }
  for (const std::string_view map :
       {"{", "[]", "{}", R"({"zarr_consolidated_format":2,"metadata":{}})", R"({"zarr_consolidated_format":1})",
        R"({"zarr_consolidated_format":1,"metadata":{"a/.zarray":1}})",
        R"({"zarr_consolidated_format":1,"metadata":{"a/.zarray":{},"a/.zarray":{}}})"})
    EXPECT_TRUE(parse_v2_group(R"({"zarr_format":2})", "", map).consolidated_malformed) << map;
}

}  // namespace
}  // namespace damacy
