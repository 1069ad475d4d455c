// The order of the arrays of a sample, and the names and numbers that are refused.
#include "damacy/pipeline/named_parts.h"

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "support/error_of.h"

namespace damacy {
namespace {

Sample of(const std::vector<std::string>& names, bool stacked = true) {
  Sample sample;
  for (const std::string& name : names) sample.parts.push_back({name, "uri", {{0, 1}}, stacked});
  return sample;
}

std::vector<std::string> listed(const std::vector<NamedParts>& arrays) {
  std::vector<std::string> out;
  for (const NamedParts& array : arrays) out.push_back(array.name + std::to_string(array.parts.size()));
  return out;
}

TEST(NamedParts, are_in_the_order_of_the_names_that_are_wanted) {
  EXPECT_EQ(listed(parts_by_name(of({"b", "a", "b", "c"}), {})), (std::vector<std::string>{"b2", "a1", "c1"}));
  const std::vector<std::string> names{"c", "b", "a"};
  EXPECT_EQ(listed(parts_by_name(of({"b", "a", "b", "c"}), names)), (std::vector<std::string>{"c1", "b2", "a1"}));
}

TEST(NamedParts, refuse_other_names) {
  const std::vector<std::string> names{"a", "b"};
  for (const auto& wrong : {std::vector<std::string>{"a"}, {"a", "c"}, {"a", "b", "c"}}) {
    const Error error = error_of([&] { static_cast<void>(parts_by_name(of(wrong), names)); });
    EXPECT_EQ(error.where().reason, "names");
  }
  const Error error = error_of([&] { static_cast<void>(parts_by_name(of({"b", "x"}), names)); });
  EXPECT_EQ(error.message(), "names: the sample has 'b', 'x'; this pipeline has 'a', 'b'");
  EXPECT_EQ(error_of([&] { static_cast<void>(parts_by_name(of({""}), {})); }).where().reason, "names");
  EXPECT_EQ(error_of([&] { static_cast<void>(parts_by_name(of({"a", "a"}, false), {})); }).where().array, "a");
}

TEST(NamedParts, refuses_more_arrays_parts_and_bytes_of_names) {
  const auto reason_of = [](const Sample& sample) {
    return error_of([&] { static_cast<void>(parts_by_name(sample, {})); }).where().reason;
  };
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < Limits::arrays_per_sample; ++i) names.push_back(formatted("a{}", i));
  EXPECT_EQ(parts_by_name(of(names), {}).size(), Limits::arrays_per_sample);
  names.push_back("one more");
  EXPECT_EQ(reason_of(of(names)), "limit");

  std::vector<std::string> same(Limits::parts_per_sample, "a");
  EXPECT_EQ(parts_by_name(of(same), {}).front().parts.size(), Limits::parts_per_sample);
  same.push_back("a");
  EXPECT_EQ(reason_of(of(same)), "limit");

  EXPECT_EQ(parts_by_name(of({std::string(Limits::array_name_bytes, 'a')}), {}).size(), 1u);
  EXPECT_EQ(reason_of(of({std::string(Limits::array_name_bytes + 1, 'a')})), "limit");
}

}  // namespace
}  // namespace damacy
