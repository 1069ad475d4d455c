#include "damacy/zarr/array_attributes.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/store/memory_store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/array_info.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/stored_attributes.h"
#include "support/documents.h"

namespace damacy {
namespace {

using namespace for_tests;

ArrayAttributes v3(const std::string& attributes, Dtype dtype = Dtype::i16, const std::string& names = "") {
  return parse_v3_attributes(v3_document({{"attributes", attributes}, {"dimension_names", names}}), {2, dtype, {}});
}

template <class T>
T value_of(const FillBytes& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <class T>
std::vector<T> missing_of(const ArrayAttributes& attributes) {
  std::vector<T> values;
  for (const FillBytes& bytes : attributes.cf->missing) values.push_back(value_of<T>(bytes));
  return values;
}

std::string problem_of(const ArrayAttributes& attributes) {
  if (!attributes.cf_error) return "";
  EXPECT_EQ(attributes.cf_error->status(), Status::decode);
  EXPECT_EQ(attributes.cf_error->where().reason, "cf");
  return formatted("{}: {}", attributes.cf_error->where().pointer, attributes.cf_error->message());
}

TEST(ArrayAttributes, names_of_dimensions_come_from_the_document_before_the_attribute) {
  const std::string attribute = R"({"_ARRAY_DIMENSIONS":["a","b"]})";
  EXPECT_EQ(v3(attribute, Dtype::i16, R"(["y",null])").dims, (DimensionNames{"y", std::nullopt}));
  EXPECT_EQ(v3(attribute).dims, (DimensionNames{"a", "b"}));
  EXPECT_EQ(v3(R"({"_ARRAY_DIMENSIONS":["a"]})").dims, DimensionNames());
  EXPECT_EQ(v3(R"({"_ARRAY_DIMENSIONS":["a",3]})").dims, DimensionNames());
  EXPECT_EQ(parse_v2_attributes(attribute, {2, Dtype::i16, {}}).dims, (DimensionNames{"a", "b"}));
}

TEST(ArrayAttributes, packing_is_numbers_or_lists_of_one) {
  const auto found = v3(R"({"scale_factor":0.25,"add_offset":[-3]})");
  EXPECT_EQ(found.cf->scale_factor, 0.25);
  EXPECT_EQ(found.cf->add_offset, -3.0);
  EXPECT_EQ(found.cf->is_unsigned, std::nullopt);
  EXPECT_TRUE(found.cf->missing.empty());
}

TEST(ArrayAttributes, an_array_without_any_of_it_has_no_cf) {
  EXPECT_FALSE(v3("{}").cf);
  EXPECT_FALSE(v3(R"({"units":"K","valid_min":0})").cf);
  EXPECT_FALSE(v3("null").cf);
}

TEST(ArrayAttributes, missing_values_are_elements_of_the_stored_type) {
  EXPECT_EQ(missing_of<std::int16_t>(v3(R"({"_FillValue":-9999,"missing_value":[-9999,1e2,-9999.0]})")),
            (std::vector<std::int16_t>{-9999, 100}));
  // The type holds none of these.
  EXPECT_FALSE(v3(R"({"missing_value":[40000,0.5,"NaN",NaN,1e999]})").cf);
  const auto floats = missing_of<float>(v3(R"({"_FillValue":NaN,"missing_value":[1.1,"-Infinity"]})", Dtype::f32));
  EXPECT_TRUE(std::isnan(floats.at(0)));
  EXPECT_EQ(floats.at(1), 1.1f);
  EXPECT_EQ(floats.at(2), -HUGE_VALF);
}

TEST(ArrayAttributes, a_fill_value_in_base64_is_a_double) {
  EXPECT_EQ(missing_of<float>(v3(R"({"_FillValue":"AAAAAICHw8A="})", Dtype::f32)), std::vector<float>{-9999});
  EXPECT_EQ(missing_of<double>(v3(R"({"_FillValue":"AQAAAAAAAAA="})", Dtype::f64)), std::vector<double>{5e-324});
  for (const char* wrong : {"AAAAAICHw8A", "AAAAAICHw8=A", "AAAA*ICHw8A=", "AAAAAICHw8B=", "", "12"})
    EXPECT_NE(problem_of(v3(formatted(R"({{"_FillValue":"{}"}})", wrong), Dtype::f32)), "") << wrong;
}

TEST(ArrayAttributes, unsigned_reads_the_fill_value_as_signed_and_missing_values_as_they_are_read) {
  const auto bytes = v3(R"({"_Unsigned":"true","_FillValue":-1,"missing_value":254})", Dtype::i8);
  EXPECT_EQ(bytes.cf->missing_type, Dtype::u8);
  EXPECT_EQ(bytes.cf->is_unsigned, true);
  EXPECT_EQ(missing_of<std::uint8_t>(bytes), (std::vector<std::uint8_t>{255, 254}));
  const auto words = v3(R"({"_Unsigned":"false","_FillValue":-2})", Dtype::u16);
  EXPECT_EQ(words.cf->missing_type, Dtype::i16);
  EXPECT_EQ(missing_of<std::int16_t>(words), std::vector<std::int16_t>{-2});
  EXPECT_FALSE(v3(R"({"_Unsigned":"true"})", Dtype::f32).cf);
}

TEST(ArrayAttributes, in_v2_the_fill_value_takes_the_place_of_the_attribute) {
  FillBytes seven{};
  seven[0] = std::byte{7};
  const auto found = parse_v2_attributes(R"({"_FillValue":1,"missing_value":2})", {2, Dtype::i16, seven});
  EXPECT_EQ(missing_of<std::int16_t>(found), (std::vector<std::int16_t>{7, 2}));
  EXPECT_FALSE(parse_v2_attributes("", {2, Dtype::i16, {}}).cf);
}

TEST(ArrayAttributes, what_cannot_be_used_is_named_with_its_pointer) {
  EXPECT_EQ(problem_of(v3(R"({"scale_factor":"a"})")),
            R"(/attributes/scale_factor: expected a finite number other than 0 (got "a"))");
  EXPECT_EQ(problem_of(v3(R"({"scale_factor":0})")),
            "/attributes/scale_factor: expected a finite number other than 0 (got 0)");
  EXPECT_EQ(problem_of(v3(R"({"add_offset":[1,2]})")), "/attributes/add_offset: expected a finite number (got a list)");
  EXPECT_EQ(problem_of(v3(R"({"add_offset":NaN})")), "/attributes/add_offset: expected a finite number (got NaN)");
  EXPECT_EQ(problem_of(v3(R"({"_Unsigned":true})")), R"(/attributes/_Unsigned: expected "true" or "false" (got true))");
  EXPECT_EQ(problem_of(v3(R"({"missing_value":[1,null]})")),
            "/attributes/missing_value/1: expected a number, a list of numbers, NaN, Infinity or -Infinity (got null)");
}

TEST(ArrayAttributes, at_most_16_values_are_missing) {
  const auto with = [](int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += formatted("{}{}", i > 0 ? "," : "", i);
    return v3(formatted(R"({{"missing_value":[{}]}})", list));
  };
  EXPECT_EQ(with(15).cf->missing.size(), 15u);
  EXPECT_EQ(with(16).cf->missing.size(), 16u);
  EXPECT_EQ(problem_of(with(17)), "/attributes/missing_value/16: more than 16 missing values");
}

TEST(ArrayAttributes, members_that_occur_twice_are_of_no_concern) {
  EXPECT_EQ(v3(R"({"scale_factor":1,"scale_factor":2})").cf->scale_factor, 2.0);
  EXPECT_EQ(parse_v3_array(v3_document({{"attributes", R"({"scale_factor":1,"scale_factor":2})"}})).packed_by,
            "scale_factor 2");
}

TEST(ArrayAttributes, a_packed_array_says_so_when_it_is_parsed) {
  const auto packed_by = [](const std::string& attributes) {
    return parse_v3_array(v3_document({{"attributes", attributes}})).packed_by;
  };
  EXPECT_EQ(packed_by(R"({"scale_factor":0.0017,"add_offset":273.15})"), "scale_factor 0.0017 and add_offset 273.15");
  EXPECT_EQ(packed_by(R"({"add_offset":"x"})"), "add_offset");
  EXPECT_EQ(packed_by(R"({"_FillValue":0})"), "");
  EXPECT_EQ(packed_by("null"), "");
}

TEST(ArrayAttributes, that_can_be_used_have_neutral_values_where_there_are_none) {
  EXPECT_TRUE(v3("{}").usable_cf().empty());
  EXPECT_EQ(v3(R"({"scale_factor":2})").usable_cf().scale_factor, 2.0);
  EXPECT_THROW((void)v3(R"({"scale_factor":"a"})").usable_cf(), Error);
}

using Documents = std::initializer_list<std::pair<const char*, std::string>>;

std::shared_ptr<MemoryStore> store_of(Documents documents) {
  auto store = std::make_shared<MemoryStore>("a.zarr");
  for (const auto& [key, document] : documents) store->put(key, document);
  return store;
}

ArrayInfo info_of(Documents documents) {
  return array_info("a.zarr", store_of(documents));
}

TEST(ArrayAttributes, axes_of_an_image_name_the_dimensions) {
  const auto image = [](const char* axes) {
    return formatted(R"({{"zarr_format":3,"node_type":"group","attributes":{{"ome":{{"multiscales":[{{"axes":{},)"
                     R"("datasets":[{{"path":"0"}}]}}]}}}}}})",
                     axes);
  };
  const std::string level = v3_document({{"dimension_names", R"(["p","q"])"}});
  const auto dims = [&](const char* axes) {
    return info_of({{"zarr.json", image(axes)}, {"0/zarr.json", level}}).dims;
  };
  EXPECT_EQ(dims(R"([{"name":"y","type":"space"},{"name":"x"}])"), (DimensionNames{"y", "x"}));
  EXPECT_EQ(dims(R"(["y","x"])"), (DimensionNames{"y", "x"}));
  EXPECT_EQ(dims(R"([{"name":3},{}])"), (DimensionNames{std::nullopt, std::nullopt}));
  EXPECT_EQ(dims(R"(["y"])"), (DimensionNames{"p", "q"}));
  EXPECT_EQ(dims("null"), (DimensionNames{"p", "q"}));
}

std::string image(const char* members) {
  return formatted(R"({{"zarr_format":3,"node_type":"group",)"
                   R"("attributes":{{"ome":{{"multiscales":[{{{}"datasets":[{{"path":"0"}}]}}]}}}}}})",
                   members);
}

TEST(ArrayAttributes, the_channel_axis_has_a_type_or_one_of_four_names) {
  const auto channel = [](const std::string& group) {
    return read_attributes(*open_array("a.zarr", store_of({{"zarr.json", group},
                                                           {"0/zarr.json",
                                                            v3_document({{"dimension_names", R"(["p","band"])"}})}})))
        .channel_axis();
  };
  EXPECT_EQ(channel(image(R"("axes":[{"name":"y","type":"channel"},{"name":"c","type":"space"}],)")), 0u);
  EXPECT_EQ(channel(image(R"("axes":[{"name":"y","type":"space"},{"name":"c"}],)")), 1u);
  EXPECT_EQ(channel(image(R"("axes":["y","x"],)")), std::nullopt);
  EXPECT_EQ(channel(image("")), 1u);  // "band" of the level itself
}

TEST(ArrayAttributes, images_before_0_3_have_five_axes) {
  const auto dims = [](const char* version) {
    return info_of({{"zarr.json", image(version)},
                    {"0/zarr.json", v3_document({{"shape", "[1,1,1,10,7]"},
                                                 {"chunk_grid", R"({"name":"regular","configuration":)"
                                                                R"({"chunk_shape":[1,1,1,4,3]}})"}})}})
        .dims;
  };
  EXPECT_EQ(dims(R"("version":"0.1",)"), (DimensionNames{"t", "c", "z", "y", "x"}));
  EXPECT_EQ(dims(R"("version":"0.2",)"), (DimensionNames{"t", "c", "z", "y", "x"}));
  EXPECT_EQ(dims(R"("version":"0.4",)"), DimensionNames(5));
}

TEST(ArrayAttributes, of_an_opened_array_are_read_from_its_store) {
  const auto v3_store = store_of({{"zarr.json", v3_document({{"attributes", R"({"scale_factor":0})"}})}});
  const auto array = open_array("a.zarr", v3_store);
  const ArrayAttributes found = read_attributes(*array);
  EXPECT_EQ(found.dims, DimensionNames(2));
  EXPECT_EQ(found.cf_error->where().uri, "a.zarr");
  EXPECT_EQ(found.cf_error->where().key, "zarr.json");
  EXPECT_EQ(found.cf_error->where().pointer, "/attributes/scale_factor");

  const auto v2_store = store_of({{".zarray", v2_document({{"fill_value", "7"}})}, {".zattrs", R"({"add_offset":1})"}});
  const ArrayAttributes v2 = read_attributes(*open_array("a.zarr", v2_store));
  EXPECT_EQ(v2.usable_cf().add_offset, 1.0);
  EXPECT_EQ(missing_of<std::int16_t>(v2), std::vector<std::int16_t>{7});

  v3_store->put("zarr.json", v3_document({{"shape", "[10,8]"}}));
  try {
    (void)read_attributes(*array);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.where().reason, "changed");
  }
}

TEST(ArrayAttributes, of_v2_lie_in_a_document_of_their_own) {
  const auto info = info_of({{".zarray", v2_document({{"fill_value", "7"}})}, {".zattrs", R"({"add_offset":1})"}});
  EXPECT_EQ(info.cf->add_offset, 1.0);
  EXPECT_EQ(value_of<std::int16_t>(info.cf->missing.at(0)), 7);
  EXPECT_EQ(value_of<std::int16_t>(info.fill), 7);
  EXPECT_EQ(info.dims, (DimensionNames{std::nullopt, std::nullopt}));
  EXPECT_FALSE(info_of({{".zarray", v2_document({{"fill_value", "null"}})}}).cf);
}

TEST(ArrayAttributes, that_are_malformed_leave_the_array_readable) {
  const auto info = info_of({{".zarray", v2_document({})}, {".zattrs", R"({"add_offset":1)"}});
  EXPECT_TRUE(info.supported);
  EXPECT_EQ(info.attributes_document, "");
  EXPECT_EQ(info.dims.size(), 2u);
}

TEST(ArrayAttributes, are_also_given_for_an_unsupported_array) {
  const auto info = info_of({{"zarr.json", v3_document({{"data_type", R"("string")"},
                                                        {"dimension_names", R"(["y","x"])"},
                                                        {"attributes", R"({"scale_factor":2})"}})}});
  EXPECT_FALSE(info.supported);
  EXPECT_EQ(info.elements, std::nullopt);
  EXPECT_EQ(info.dims, (DimensionNames{"y", "x"}));
  EXPECT_FALSE(info.cf);
}

}  // namespace
}  // namespace damacy
