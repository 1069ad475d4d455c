// The description of images, labels and plates: any text gives JSON errors, or values that keep their promises.
#include <cmath>

#include "damacy/core/formatted.h"
#include "damacy/zarr/ngff.h"
#include "zarr_support.h"

namespace {

using namespace damacy;
using fuzz::Choices;
using fuzz::require;

std::string value(Choices& in);

std::string object(Choices& in, std::initializer_list<const char*> names) {
  std::string members;
  for (int i = in.byte() % 6; i > 0; --i)
    members += formatted("{}\"{}\":{}", members.empty() ? "" : ",", in.pick(names), value(in));
  return formatted("{{{}}}", members);
}

std::string list(Choices& in) {
  std::string items;
  for (int i = in.byte() % 6; i > 0; --i) items += formatted("{}{}", items.empty() ? "" : ",", value(in));
  return formatted("[{}]", items);
}

std::string value(Choices& in) {
  if (in.empty()) return "0";
  switch (in.byte() % 8) {
    case 0:
      return list(in);
    case 1:
      return object(in, {"type", "scale", "translation", "path", "name", "unit"});
    case 2:
      return object(in, {"coordinateTransformations", "path", "axes", "datasets", "version", "name"});
    case 3:
      return object(in, {"rows", "columns", "wells", "images", "acquisitions", "field_count", "source", "channels"});
    case 4:
      return in.pick({"\"scale\"", "\"translation\"", "\"identity\"", "\"affine\"", "\"space\"", "\"0.4\"", "\"0.2\"",
                      "\"0\"", "\"../x\"", "\"y\"", "\"x\"", "\"channel\""});
    default:
      return in.number();
  }
}

void check_level(const NgffLevel& level, std::size_t rank) {
  require(level.scale.size() == level.translation.size(), "both, or neither");
  require(level.scale.empty() || level.scale.size() == rank, "a number an axis");
  require(level.scale.empty() || !level.problem, "either numbers or a problem");
  for (const double number : level.scale) require(std::isfinite(number) && number > 0, "scale");
  for (const double number : level.translation) require(std::isfinite(number), "translation");
}

void check(const Ngff& ngff) {
  const auto check_path = [](const std::string& path) {
    const std::string framed = formatted("/{}/", path);
    for (const char* bad : {"//", "/./", "/../"}) require(framed.find(bad) == framed.npos, "a path below the group");
  };
  for (const NgffImage& image : ngff.images)
    for (const NgffLevel& level : image.levels) {
      check_path(level.path);
      check_level(level, image.axes.size());
    }
  for (const std::string& label : ngff.labels) check_path(label);
  if (ngff.plate)
    for (const std::string& well : ngff.plate->wells) check_path(well);
  for (const NgffField& field : ngff.fields) check_path(field.path);
  for (const NgffProblem& problem : ngff.problems)
    require(problem.pointer.empty() || problem.pointer[0] == '/', "a pointer");
}

}  // namespace

// The first byte says what the rest is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  Choices in(rest);
  const auto attributes = [&] {
    return object(in, {"multiscales", "omero", "labels", "image-label", "plate", "well", "version", "ome"});
  };
  try {
    switch (data[0] % 4) {
      case 0:
        check(parse_ngff(rest, 3));
        break;
      case 1:
        check(parse_ngff(rest, 2));
        break;
      case 2:
        check(parse_ngff(formatted(R"({{"attributes":{{"ome":{}}}}})", attributes()), 3));
        break;
      default:
        check(parse_ngff(attributes(), 2));
    }
  } catch (const Error& e) {
    fuzz::check_error(e);
  }
  return 0;
}
