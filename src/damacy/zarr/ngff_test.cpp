#include "damacy/zarr/ngff.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

const std::string kAxes = R"([{"name":"c","type":"channel"},{"name":"y","type":"space","unit":"micrometer"},)"
                          R"({"name":"x","type":"space"}])";

Ngff v2(const std::string& attributes) {
  return parse_ngff(attributes, 2);
}

Ngff v3(const std::string& ome) {
  return parse_ngff(formatted(R"({{"zarr_format":3,"node_type":"group","attributes":{{"ome":{}}}}})", ome), 3);
}

// One level with these transformations, and those of the multiscale.
Ngff transformed(const std::string& of_level, const std::string& of_image = "[]") {
  return v2(formatted(R"({{"multiscales":[{{"version":"0.4","axes":{},"coordinateTransformations":{},)"
                      R"("datasets":[{{"path":"0","coordinateTransformations":{}}}]}}]}})",
                      kAxes, of_image, of_level));
}

const NgffLevel& level_of(const Ngff& ngff) {
  return ngff.images.at(0).levels.at(0);
}

std::vector<std::string> problems_of(const Ngff& ngff) {
  std::vector<std::string> lines;
  for (const NgffProblem& problem : ngff.problems)
    lines.push_back(formatted("{}: {}", problem.pointer, problem.message));
  return lines;
}

using Numbers = std::vector<double>;

TEST(Ngff, transformations_of_a_level_are_followed_by_those_of_the_image) {
  const auto ngff =
      transformed(R"([{"type":"scale","scale":[1,0.5,0.25]},{"type":"translation","translation":[0,1,2]}])",
                  R"([{"type":"scale","scale":[1,2,4]},{"type":"translation","translation":[5,6,7]}])");
  EXPECT_EQ(level_of(ngff).scale, (Numbers{1, 1, 1}));
  EXPECT_EQ(level_of(ngff).translation, (Numbers{5, 8, 15}));
  EXPECT_TRUE(ngff.problems.empty());
  EXPECT_EQ(ngff.images[0].axes[1].unit, "micrometer");
  EXPECT_EQ(ngff.images[0].axes[0].type, "channel");
}

TEST(Ngff, absent_transformations_are_neutral) {
  EXPECT_EQ(level_of(transformed(R"([{"type":"scale","scale":[1,2,2]}])")).translation, (Numbers{0, 0, 0}));
  EXPECT_EQ(level_of(transformed(R"([{"type":"identity"}])")).scale, (Numbers{1, 1, 1}));
  const auto absent = transformed("null");
  EXPECT_EQ(level_of(absent).scale, (Numbers{1, 1, 1}));
  EXPECT_EQ(problems_of(absent),
            (std::vector<std::string>{"/multiscales/0/datasets/0: member 'coordinateTransformations' is missing"}));
}

TEST(Ngff, other_transformations_are_unknown_and_no_problem) {
  for (const char* other :
       {R"([{"type":"affine","affine":[[1]]}])", R"([{"type":"scale","path":"p"}])", R"([{"type":"rotation"}])"}) {
    const auto ngff = transformed(other);
    EXPECT_TRUE(level_of(ngff).scale.empty()) << other;
    EXPECT_TRUE(ngff.problems.empty()) << other;
    EXPECT_FALSE(level_of(ngff).problem) << other;
  }
}

TEST(Ngff, wrong_transformations_are_named_with_their_pointer) {
  const auto said = [](const char* transformations) {
    const auto ngff = transformed(transformations);
    EXPECT_TRUE(level_of(ngff).scale.empty());
    EXPECT_EQ(ngff.problems.size(), 1u);
    return level_of(ngff).problem.value().pointer.substr(std::string("/multiscales/0/datasets/0").size()) + ": " +
           level_of(ngff).problem->message;
  };
  const std::string at = "/coordinateTransformations/0";
  EXPECT_EQ(said(R"([{"type":"scale","scale":[1,2]}])"), at + "/scale: expected 3 numbers, found 2");
  EXPECT_EQ(said(R"([{"type":"scale","scale":[1,0,1]}])"), at + "/scale/1: expected a number above 0, found 0");
  EXPECT_EQ(said(R"([{"type":"scale","scale":[1,"a",1]}])"), at + "/scale/1: expected a finite number");
  EXPECT_EQ(said(R"([{"type":"scale","scale":[1,NaN,1]}])"), at + "/scale/1: expected a finite number");
  EXPECT_EQ(said(R"([{"type":"scale"}])"), at + ": member 'scale' is missing");
  EXPECT_EQ(said(R"([3])"), at + ": expected an object, found 3");
  EXPECT_EQ(said(R"([{"type":3}])"), at + ": a transformation without a type");
  EXPECT_EQ(said(R"([{"type":"scale","scale":[1e300,1,1]},{"type":"scale","scale":[1e300,1,1]}])"),
            ": the product of the transformations is not finite or 0");
}

TEST(Ngff, images_up_to_0_3_have_no_transformations) {
  const auto image = [](const char* version, const char* more) {
    return v2(formatted(R"({{"multiscales":[{{"version":"{}"{},"datasets":[{{"path":"0"}}]}}]}})", version, more));
  };
  for (const char* version : {"0.1", "0.2"}) {
    const auto ngff = image(version, "");
    EXPECT_FALSE(ngff.images[0].has_transformations);
    EXPECT_EQ(ngff.images[0].axes.size(), 5u);
    EXPECT_EQ(ngff.images[0].axes[1].type, "channel");
    EXPECT_TRUE(ngff.problems.empty());
  }
  const auto three = image("0.3", R"(,"axes":["t","y","x"])");
  EXPECT_EQ(three.images[0].axes[0].type, "time");
  EXPECT_FALSE(three.images[0].has_transformations);
  EXPECT_TRUE(three.problems.empty());
  EXPECT_EQ(problems_of(image("0.4", "")).size(), 1u);
}

TEST(Ngff, the_version_lies_in_the_group_from_0_5_on) {
  const auto ngff = v3(formatted(R"({{"version":"0.5","multiscales":[{{"name":"n","axes":{},"datasets":[{{"path":"s0",)"
                                 R"("coordinateTransformations":[{{"type":"identity"}}]}}]}}]}})",
                                 kAxes));
  EXPECT_EQ(ngff.images[0].version, "0.5");
  EXPECT_EQ(ngff.images[0].name, "n");
  EXPECT_TRUE(ngff.problems.empty());
}

TEST(Ngff, axes_that_violate_the_specification_are_named) {
  const auto said = [](const char* axes) {
    return problems_of(v2(formatted(R"({{"multiscales":[{{"version":"0.4","axes":{},"datasets":[{{"path":"0",)"
                                    R"("coordinateTransformations":[{{"type":"identity"}}]}}]}}]}})",
                                    axes)));
  };
  EXPECT_EQ(said(R"([{"name":"y","type":"space"},{"name":"y","type":"space"}])"),
            std::vector<std::string>{"/multiscales/0/axes: axis 'y' occurs twice"});
  EXPECT_EQ(said(R"([{"name":"y","type":"space"},{"name":"x","type":"space"},{"name":"t","type":"time"}])"),
            std::vector<std::string>{"/multiscales/0/axes: expected axes in the order time, channel, space"});
  EXPECT_EQ(said(R"([{"name":"y","type":"space"},{"type":"space"}])"),
            std::vector<std::string>{"/multiscales/0/axes/1: an axis without a name"});
  EXPECT_EQ(said("7").size(), 2u);  // not a list, and missing
}

TEST(Ngff, channels_labels_plates_and_wells_are_listed) {
  const auto ngff = v2(R"({"omero":{"channels":[{"label":"DAPI","color":"0000FF","window":{"start":1,"end":9}},{}]},
    "labels":["nuclei","../cells"],"image-label":{"source":{"image":"../../"}},
    "plate":{"name":"p","rows":[{"name":"A"}],"columns":[{"name":"1"},{"name":"2"}],"field_count":2,
             "wells":[{"path":"A/1"},{"path":"/B"}],"acquisitions":[{"id":3,"name":"first"}]},
    "well":{"images":[{"path":"0","acquisition":3},{"path":"1"}]}})");
  EXPECT_EQ(ngff.channels.at(0).label, "DAPI");
  EXPECT_EQ(ngff.channels.at(0).window, (std::array<double, 2>{1, 9}));
  EXPECT_FALSE(ngff.channels.at(1).color);
  EXPECT_EQ(ngff.labels, std::vector<std::string>{"nuclei"});
  EXPECT_TRUE(ngff.is_label);
  EXPECT_EQ(ngff.label_source, "../../");
  EXPECT_EQ(ngff.plate->rows, std::vector<std::string>{"A"});
  EXPECT_EQ(ngff.plate->columns.size(), 2u);
  EXPECT_EQ(ngff.plate->wells, std::vector<std::string>{"A/1"});
  EXPECT_EQ(ngff.plate->field_count, 2);
  EXPECT_EQ(ngff.plate->acquisitions.at(0).id, 3);
  EXPECT_EQ(ngff.fields.at(0).acquisition, 3);
  EXPECT_EQ(ngff.fields.at(1).path, "1");
  EXPECT_EQ(ngff.problems.size(), 3u);  // two paths that lead out of the group
}

TEST(Ngff, any_json_is_accepted) {
  for (const char* attributes : {"", "{}", "null", "[]", "3", R"({"multiscales":3,"plate":[],"well":"x","omero":null})",
                                 R"({"multiscales":[3,{"datasets":[{"path":"a//b"},4]}]})"})
    EXPECT_TRUE(v2(attributes).plate == std::nullopt) << attributes;
  EXPECT_TRUE(parse_ngff(R"({"attributes":7})", 3).images.empty());
}

// Lists of at most 4096 items that have `values` values together, the document and the outer list among them.
std::string lists_of(std::uint64_t values) {
  std::string lists;
  for (std::uint64_t left = values - 2; left > 0;) {
    const std::uint64_t items = std::min<std::uint64_t>(left - 1, 4096);
    lists += lists.empty() ? "[" : ",[";
    for (std::uint64_t i = 0; i < items; ++i) lists += i > 0 ? ",0" : "0";
    lists += ']';
    left -= items + 1;
  }
  return formatted(R"({{"multiscales":[{}]}})", lists);
}

TEST(Ngff, the_number_of_values_is_limited) {
  EXPECT_EQ(v2(lists_of(Limits::ngff_values - 1)).images.size(), 64u);
  EXPECT_EQ(v2(lists_of(Limits::ngff_values)).images.size(), 64u);
  try {
    (void)v2(lists_of(Limits::ngff_values + 1));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.where().reason, "limit");
  }
}

}  // namespace
}  // namespace damacy
