#include "damacy/zarr/detail/ngff_json.h"

#include <bit>
#include <cmath>

#include "damacy/core/formatted.h"
#include "damacy/zarr/detail/document.h"
#include "damacy/zarr/detail/number_text.h"

namespace damacy::ngff {

using json::Kind;
using json::Value;

void Problems::add(NgffProblem problem) {
  if (list_.size() < kMost) list_.push_back(std::move(problem));
}

std::optional<Value> member(const Value& object, std::string_view name) {
  std::optional<Value> found;
  if (object.is(Kind::object))
    for (const Value one : object)
      if (one.name() == name) found = one;
  return found;
}

std::optional<Value> member(const Value& object, std::string_view name, Kind kind, Problems& problems) {
  const auto found = member(object, name);
  if (!found || found->is(kind)) return found;
  if (!found->is(Kind::null)) problems.add(*found, expected(json::name_of(kind), *found));
  return std::nullopt;
}

std::optional<std::string> text_of(const Value& object, std::string_view name, Problems& problems) {
  const auto found = member(object, name, Kind::string, problems);
  return found ? std::optional(std::string(found->text())) : std::nullopt;
}

std::optional<std::string> path_of(const Value& object, std::string_view name, Problems& problems) {
  auto path = text_of(object, name, problems);
  if (!path || is_path_below(*path)) return path;
  problems.add(object, formatted("'{}' is not a path below the group", *path));
  return std::nullopt;
}

std::optional<std::int64_t> integer_of(const Value& object, std::string_view name, Problems& problems) {
  const auto found = member(object, name, Kind::number, problems);
  const auto number = found ? finite_number(*found) : std::nullopt;
  if (!found) return std::nullopt;
  if (number && std::floor(*number) == *number && std::abs(*number) < 9e15) return static_cast<std::int64_t>(*number);
  problems.add(*found, formatted("expected an integer, found {}", found->text()));
  return std::nullopt;
}

std::optional<double> finite_number(const Value& value) {
  if (!value.is_finite_number()) return std::nullopt;
  const auto bits = float_bits(value.text(), FloatFormat::f64);
  return bits ? std::optional(std::bit_cast<double>(*bits)) : std::nullopt;
}

std::string expected(std::string_view what, const Value& found) {
  return formatted("expected {}, found {}", what, json::shown(found));
}

}  // namespace damacy::ngff
