#include "damacy/pipeline/named_parts.h"

#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

void at_most(std::size_t count, std::uint64_t most, const char* what) {
  if (count > most)
    throw Error(Status::inval, formatted("a sample has {} {}, the limit is {}", count, what, most), "limit");
}

std::vector<NamedParts> as_they_occur(std::span<const Sample::Part> parts) {
  std::vector<NamedParts> arrays;
  for (const Sample::Part& part : parts) {
    auto array = std::ranges::find(arrays, part.name, &NamedParts::name);
    if (array == arrays.end()) {
      at_most(arrays.size() + 1, Limits::arrays_per_sample, "arrays");
      array = arrays.insert(array, {part.name, {}});
    }
    array->parts.push_back(&part);
  }
  return arrays;
}

void check(const NamedParts& array) {
  if (array.name.empty()) throw Error(Status::inval, "the name of an array is empty", "names");
  at_most(array.name.size(), Limits::array_name_bytes, "bytes in the name of an array");
  if (array.parts.size() > 1 && !std::ranges::all_of(array.parts, &Sample::Part::stacked))
    throw Error(Status::inval, "several parts of one name must all be stacked", "names").at_array(array.name);
}

std::string text_of(std::span<const std::string> names) {
  if (names.size() == 1 && names.front().empty()) return "one array without a name";
  std::string all;
  for (const std::string& name : names) all += formatted("{}'{}'", all.empty() ? "" : ", ", name);
  return all;
}

}  // namespace

void refuse_names(std::span<const std::string> of_sample, std::span<const std::string> of_pipeline) {
  throw Error(Status::inval,
              formatted("names: the sample has {}; this pipeline has {}", text_of(of_sample), text_of(of_pipeline)),
              "names");
}

std::vector<NamedParts> parts_by_name(const Sample& sample, std::span<const std::string> names) {
  at_most(sample.parts.size(), Limits::parts_per_sample, "parts");
  std::vector<NamedParts> arrays = as_they_occur(sample.parts);
  for (const NamedParts& array : arrays) check(array);
  if (names.empty()) return arrays;
  std::vector<NamedParts> ordered;
  for (const std::string& name : names) {
    const auto array = std::ranges::find(arrays, name, &NamedParts::name);
    if (array != arrays.end()) ordered.push_back(*array);
  }
  if (ordered.size() == arrays.size() && ordered.size() == names.size()) return ordered;
  std::vector<std::string> has;
  for (const NamedParts& array : arrays) has.push_back(array.name);
  refuse_names(has, names);
}

}  // namespace damacy
