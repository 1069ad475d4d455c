// Another number of fields does not compile here: a new one needs a line in a table, and a name in a test.
#include "damacy/batch/fields.h"

#include <set>
#include <string_view>
#include <tuple>

#include <gtest/gtest.h>

namespace damacy {
namespace {

struct Lines {
  std::set<const void*> fields;
  std::set<std::string_view> names;
};

TEST(Fields, each_setting_has_one_line_in_a_table_or_a_form_of_its_own) {
  const Config config;
  const auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22,
               f23, f24, f25, f26, f27] = config;
  const std::set<const void*> all{&f0,  &f1,  &f2,  &f3,  &f4,  &f5,  &f6,  &f7,  &f8,  &f9,  &f10, &f11, &f12, &f13,
                                  &f14, &f15, &f16, &f17, &f18, &f19, &f20, &f21, &f22, &f23, &f24, &f25, &f26, &f27};
  Lines lines{{&config.dtype, &config.device, &config.arrays}, {"dtype", "device", "arrays"}};
  const auto add = [&](std::string_view name, auto member) {
    lines.fields.insert(&(config.*member));
    lines.names.insert(name);
  };
  for (const auto& [name, member] : kIntegerSettings) add(name, member);
  for (const auto& [name, member] : kOptionalIntegerSettings) add(name, member);
  for (const auto& [name, member] : kNumberSettings) add(name, member);
  for (const auto& [name, member] : kFlagSettings) add(name, member);
  for (const auto& [name, member] : kTextSettings) add(name, member);
  for_named_settings([&](std::string_view name, auto member, const auto&) { add(name, member); });
  EXPECT_EQ(lines.fields, all);
  EXPECT_EQ(lines.names.size(), all.size());
}

TEST(Fields, each_field_of_a_spec_has_one_line_in_the_table) {
  const ArraySpec spec;
  const auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = spec;
  const std::set<const void*> all{&f0, &f1, &f2, &f3, &f4, &f5, &f6, &f7, &f8, &f9, &f10, &f11, &f12};
  Lines lines;
  std::apply(
      [&](const auto&... line) {
        (lines.fields.insert(&(spec.*line.value)), ...);
        (lines.names.insert(line.name), ...);
      },
      kSpecFields);
  EXPECT_EQ(lines.fields, all);
  EXPECT_EQ(lines.names.size(), all.size());
}

}  // namespace
}  // namespace damacy
