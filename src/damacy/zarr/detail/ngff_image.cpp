#include "damacy/zarr/detail/ngff_image.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy::ngff {
namespace {

using json::Kind;
using json::Value;

bool is_one_of(const std::optional<std::string>& word, std::initializer_list<std::string_view> words) {
  return word && std::find(words.begin(), words.end(), *word) != words.end();
}

void check_axes(const Value& list, const std::vector<NgffAxis>& axes, Problems& problems) {
  std::set<std::string> names;
  for (const NgffAxis& axis : axes)
    if (axis.name && !names.insert(*axis.name).second)
      problems.add(list, formatted("axis '{}' occurs twice", *axis.name));
  if (axes.size() < 2 || axes.size() > 5) problems.add(list, formatted("expected 2 to 5 axes, found {}", axes.size()));
  const auto rank_of = [](const NgffAxis& axis) { return axis.type == "time" ? 0 : axis.type == "space" ? 2 : 1; };
  if (!std::is_sorted(axes.begin(), axes.end(),
                      [&](const NgffAxis& a, const NgffAxis& b) { return rank_of(a) < rank_of(b); }))
    problems.add(list, "expected axes in the order time, channel, space");
  const auto spaces = std::ranges::count_if(axes, [](const NgffAxis& axis) { return axis.type == "space"; });
  if (spaces < 2 || spaces > 3) problems.add(list, formatted("expected 2 or 3 axes of type space, found {}", spaces));
}

std::optional<std::string> type_by_name(const std::optional<std::string>& name) {
  if (name == "t") return "time";
  if (name == "c") return "channel";
  return is_one_of(name, {"z", "y", "x"}) ? std::optional<std::string>("space") : std::nullopt;
}

std::vector<NgffAxis> old_axes() {
  std::vector<NgffAxis> axes;
  for (const char* name : {"t", "c", "z", "y", "x"}) axes.push_back({name, type_by_name(name), std::nullopt});
  return axes;
}

NgffAxis parse_axis(const Value& value, Problems& problems) {
  if (value.is(Kind::string)) return {std::string(value.text()), type_by_name(std::string(value.text())), std::nullopt};
  if (!value.is(Kind::object)) {
    problems.add(value, expected("an object", value));
    return {};
  }
  NgffAxis axis{text_of(value, "name", problems), text_of(value, "type", problems), text_of(value, "unit", problems)};
  if (!axis.name) problems.add(value, "an axis without a name");
  return axis;
}

// Empty: unknown.
std::vector<NgffAxis> parse_axes(const Value& multiscale, const NgffImage& image, Problems& problems) {
  const auto list = member(multiscale, "axes", Kind::array, problems);
  if (!list) {
    if (is_one_of(image.version, {"0.1", "0.2"})) return old_axes();
    if (is_one_of(image.version, {"0.3", "0.4", "0.5"})) problems.add(multiscale, "member 'axes' is missing");
    return {};
  }
  std::vector<NgffAxis> axes;
  for (const Value item : *list)
    if (axes.size() <= Limits::rank) axes.push_back(parse_axis(item, problems));
  check_axes(*list, axes, problems);
  return axes;
}

// x -> scale * x + translation on each axis.
struct Affine {
  std::vector<double> scale, translation;
};

struct Unusable {
  std::optional<NgffProblem> problem;  // empty: a legal transformation that is not supported
};

std::vector<double> parse_vector(const Value& transformation, std::string_view name, std::size_t rank) {
  const auto list = member(transformation, name);
  if (!list) throw Unusable{NgffProblem{transformation.pointer(), formatted("member '{}' is missing", name)}};
  if (!list->is(Kind::array)) throw Unusable{NgffProblem{list->pointer(), expected("a list", *list)}};
  if (list->size() != rank)
    throw Unusable{NgffProblem{list->pointer(), formatted("expected {} numbers, found {}", rank, list->size())}};
  std::vector<double> numbers;
  for (const Value item : *list) {
    const auto number = finite_number(item);
    if (!number) throw Unusable{NgffProblem{item.pointer(), "expected a finite number"}};
    if (name == "scale" && *number <= 0)
      throw Unusable{NgffProblem{item.pointer(), formatted("expected a number above 0, found {}", item.text())}};
    numbers.push_back(*number);
  }
  return numbers;
}

void apply(const Value& transformation, Affine& affine) {
  if (!transformation.is(Kind::object))
    throw Unusable{NgffProblem{transformation.pointer(), expected("an object", transformation)}};
  const auto type = member(transformation, "type");
  if (!type || !type->is(Kind::string))
    throw Unusable{NgffProblem{transformation.pointer(), "a transformation without a type"}};
  const std::size_t rank = affine.scale.size();
  if (type->text() == "identity") return;
  if (type->text() != "scale" && type->text() != "translation") throw Unusable{};
  if (member(transformation, "path")) throw Unusable{};  // the numbers lie in an array
  const std::vector<double> numbers = parse_vector(transformation, type->text(), rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (type->text() == "scale") {
      affine.scale[axis] *= numbers[axis];
      affine.translation[axis] *= numbers[axis];
    } else {
      affine.translation[axis] += numbers[axis];
    }
  }
}

void apply_all(const std::optional<Value>& list, Affine& affine) {
  if (!list) return;
  for (const Value transformation : *list) apply(transformation, affine);
}

void check_finite(const Value& dataset, const Affine& affine) {
  const auto is_finite = [](double number) { return std::isfinite(number); };
  if (!std::ranges::all_of(affine.scale, is_finite) || !std::ranges::all_of(affine.translation, is_finite) ||
      std::ranges::count(affine.scale, 0.0) > 0)
    throw Unusable{NgffProblem{dataset.pointer(), "the product of the transformations is not finite or 0"}};
}

std::optional<Value> transformations_of(const Value& object, Problems& problems) {
  return member(object, "coordinateTransformations", Kind::array, problems);
}

void set_transformation(const Value& dataset, const Value& multiscale, std::size_t rank, NgffLevel& level,
                        Problems& problems) {
  const auto own = transformations_of(dataset, problems);
  if (!own) problems.add(dataset, "member 'coordinateTransformations' is missing");
  try {
    Affine affine{std::vector<double>(rank, 1.0), std::vector<double>(rank, 0.0)};
    apply_all(own, affine);
    apply_all(transformations_of(multiscale, problems), affine);
    check_finite(dataset, affine);
    level.scale = std::move(affine.scale);
    level.translation = std::move(affine.translation);
  } catch (const Unusable& unusable) {
    if (unusable.problem) problems.add(*unusable.problem);
    level.problem = unusable.problem;
  }
}

void parse_levels(const Value& multiscale, NgffImage& image, Problems& problems) {
  const auto list = member(multiscale, "datasets", Kind::array, problems);
  if (!list || list->size() == 0) return problems.add(multiscale, "a multiscale without datasets");
  for (const Value dataset : *list) {
    const auto path = path_of(dataset, "path", problems);
    if (!path) {
      problems.add(dataset, "a dataset without a path");
      continue;
    }
    NgffLevel level{*path, {}, {}, {}};
    if (image.has_transformations && !image.axes.empty())
      set_transformation(dataset, multiscale, image.axes.size(), level, problems);
    image.levels.push_back(std::move(level));
  }
}

// Versions are missing in practice: then axes that are objects, which 0.4 introduced, tell.
bool knows_transformations(const Value& multiscale, const std::optional<std::string>& version) {
  if (version) return !is_one_of(version, {"0.1", "0.2", "0.3"});
  const auto axes = member(multiscale, "axes");
  return axes && axes->is(Kind::array) && axes->size() > 0 && (*axes->begin()).is(Kind::object);
}

}  // namespace

NgffImage parse_image(const Value& multiscale, const std::optional<std::string>& version, Problems& problems) {
  NgffImage image;
  if (!multiscale.is(Kind::object)) {
    problems.add(multiscale, expected("an object", multiscale));
    return image;
  }
  image.version = text_of(multiscale, "version", problems);
  if (!image.version) image.version = version;
  if (!image.version) problems.add(multiscale, "the version is missing");
  image.name = text_of(multiscale, "name", problems).value_or("");
  image.has_transformations = knows_transformations(multiscale, image.version);
  image.axes = parse_axes(multiscale, image, problems);
  parse_levels(multiscale, image, problems);
  return image;
}

}  // namespace damacy::ngff
