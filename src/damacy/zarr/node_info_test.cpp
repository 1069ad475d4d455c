#include "damacy/zarr/node_info.h"

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/store/memory_store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/detail/opening.h"
#include "support/documents.h"

namespace damacy {
namespace {

using namespace for_tests;

using Documents = std::initializer_list<std::pair<const char*, std::string>>;

std::shared_ptr<MemoryStore> store_of(Documents documents) {
  auto store = std::make_shared<MemoryStore>("a.zarr");
  for (const auto& [key, document] : documents) store->put(key, document);
  return store;
}

std::string v3_group(const char* attributes) {
  return formatted(R"({{"zarr_format":3,"node_type":"group","attributes":{}}})", attributes);
}

TEST(NodeInfo, tells_arrays_images_plates_and_groups_apart) {
  const auto kind = [](Documents documents) { return node_info("a.zarr", store_of(documents)).kind; };
  const char* image = R"({"multiscales":[{"datasets":[{"path":"0"}]}]})";
  EXPECT_EQ(kind({{"zarr.json", v3_document({})}}), NodeInfo::Kind::array);
  EXPECT_EQ(kind({{".zarray", v2_document({})}}), NodeInfo::Kind::array);
  EXPECT_EQ(kind({{"zarr.json", v3_group(image)}, {"0/zarr.json", v3_document({})}}), NodeInfo::Kind::image);
  EXPECT_EQ(kind({{".zgroup", R"({"zarr_format":2})"}, {".zattrs", image}, {"0/.zarray", v2_document({})}}),
            NodeInfo::Kind::image);
  EXPECT_EQ(kind({{"zarr.json", v3_group(R"({"ome":{"plate":{}}})")}}), NodeInfo::Kind::plate);
  EXPECT_EQ(kind({{"zarr.json", v3_group("{}")}}), NodeInfo::Kind::group);
  EXPECT_EQ(kind({{".zgroup", R"({"zarr_format":2})"}}), NodeInfo::Kind::group);
}

TEST(NodeInfo, has_level_0_of_an_image_and_the_attributes_of_its_group) {
  const std::string group = v3_group(R"({"multiscales":[{"version":"0.4","datasets":[{"path":"s0"}]}],"k":1})");
  const auto info = node_info("a.zarr", store_of({{"zarr.json", group}, {"s0/zarr.json", v3_document({})}}));
  EXPECT_EQ(info.array->shape, (Dims{10, 7}));
  EXPECT_EQ(info.array->levels, std::vector<std::string>{"s0"});
  EXPECT_EQ(info.attributes_document, group);
  EXPECT_EQ(info.ngff.images.at(0).version, "0.4");
}

TEST(NodeInfo, without_metadata_is_the_error_of_an_array) {
  try {
    (void)node_info("a.zarr", store_of({{"x/zarr.json", v3_document({})}}));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.where().reason, "no-metadata");
    EXPECT_NE(e.message().find("arrays inside: x"), std::string::npos);
  }
}

TEST(NodeInfo, members_are_nodes_in_natural_order) {
  const auto store = store_of({{"zarr.json", v3_group("{}")},
                               {"10/zarr.json", v3_document({})},
                               {"2/.zgroup", "{}"},
                               {"b/.zarray", "{}"},
                               {"c/0.0", "chunk"}});
  EXPECT_EQ(node_names(*store), (std::vector<std::string>{"2", "10", "b"}));
}

TEST(NodeInfo, stored_bytes_are_those_of_chunks) {
  const auto store = store_of({{"zarr.json", v3_document({})},
                               {"c/0/0", std::string(5, 'x')},
                               {"c/1/1", std::string(7, 'x')},
                               {".zattrs", "{}"}});
  EXPECT_EQ(stored_bytes(*open_array("a.zarr", store)), 12u);
}

TEST(NodeInfo, times_have_their_unit) {
  const auto unit = [](Documents documents) { return node_info("a.zarr", store_of(documents)).array->time_unit; };
  const auto v3 = [](const char* type) { return v3_document({{"data_type", type}}); };
  EXPECT_EQ(unit({{".zarray", v2_document({{"dtype", R"("<M8[25us]")"}})}}), "25us");
  EXPECT_EQ(unit({{"zarr.json", v3(R"({"name":"numpy.timedelta64","configuration":{"unit":"s","scale_factor":1}})")}}),
            "s");
  EXPECT_EQ(unit({{"zarr.json", v3(R"({"name":"numpy.datetime64","configuration":{"unit":"ns","scale_factor":25}})")}}),
            "25ns");
  EXPECT_EQ(unit({{"zarr.json", v3_document({})}}), "");
}

}  // namespace
}  // namespace damacy
