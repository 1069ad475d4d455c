// Values of NGFF's attributes: what has the wrong kind is absent and a line in a list of problems. Knows JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/zarr/json.h"
#include "damacy/zarr/ngff_description.h"

namespace damacy::ngff {

class Problems {
 public:
  explicit Problems(std::vector<NgffProblem>& list) : list_(list) {}
  void add(const json::Value& value, std::string message) { add({value.pointer(), std::move(message)}); }
  void add(NgffProblem problem);

 private:
  static constexpr std::size_t kMost = 100;
  std::vector<NgffProblem>& list_;
};

// The last member of that name; empty if `object` is none.
[[nodiscard]] std::optional<json::Value> member(const json::Value& object, std::string_view name);
// The member of that kind; a problem if it has another one. Not null: as if it were absent.
[[nodiscard]] std::optional<json::Value> member(const json::Value& object, std::string_view name, json::Kind kind,
                                                Problems& problems);
[[nodiscard]] std::optional<std::string> text_of(const json::Value& object, std::string_view name, Problems& problems);
// A text that is a path below the group; a problem if it is another one.
[[nodiscard]] std::optional<std::string> path_of(const json::Value& object, std::string_view name, Problems& problems);
[[nodiscard]] std::optional<std::int64_t> integer_of(const json::Value& object, std::string_view name,
                                                     Problems& problems);
[[nodiscard]] std::optional<double> finite_number(const json::Value& value);

// "expected a list, found 12"
[[nodiscard]] std::string expected(std::string_view what, const json::Value& found);

}  // namespace damacy::ngff
