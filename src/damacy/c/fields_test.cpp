// The C interface has each field of the tables of batch/fields.h and store/store_fields.h.
#include "damacy/batch/fields.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/c.h"
#include "damacy/c/detail/text_values.h"
#include "damacy/store/mounts.h"
#include "damacy/store/store_fields.h"

namespace damacy {
namespace {

class FieldsInC : public ::testing::Test {
 protected:
  FieldsInC() { worked(damacy_options_create(&options_), "options"); }
  ~FieldsInC() override { damacy_options_destroy(options_); }
  static void worked(int status, std::string_view name) {
    EXPECT_EQ(status, DAMACY_OK) << name << ": " << damacy_error_text();
  }
  void set_text(std::string_view name, std::string_view value) {
    worked(damacy_options_set_text(options_, name.data(), value.data()), name);
  }
  void set_integer(std::string_view name, std::int64_t value) {
    worked(damacy_options_set_integer(options_, name.data(), value), name);
  }

  damacy_options* options_ = nullptr;
};

TEST_F(FieldsInC, each_setting_can_be_set) {
  for (const auto& line : kIntegerSettings) set_integer(line.name, 1);
  for (const auto& line : kOptionalIntegerSettings) set_integer(line.name, 1);
  for (const auto& line : kFlagSettings) set_integer(line.name, 1);
  for (const auto& line : kNumberSettings) worked(damacy_options_set_number(options_, line.name.data(), 1), line.name);
  for (const auto& line : kTextSettings) set_text(line.name, "x");
  for_named_settings([&](std::string_view name, auto, const auto& values) {
    for (const auto& value : values) set_text(name, value.name);
  });
  set_text("device", "cpu");
  set_text("dtype", "float32");
  worked(damacy_options_add_array(options_, "x", DAMACY_F32), "arrays");
}

TEST_F(FieldsInC, each_counter_can_be_read) {
  set_integer("batch_size", 1);
  set_integer("host_buffer_bytes", 1 << 24);
  set_integer("device_buffer_bytes", 1 << 24);
  set_text("device", "cpu");
  damacy_pipeline* pipeline = nullptr;
  worked(damacy_pipeline_create(options_, &pipeline), "pipeline");
  for (const auto& counter : kCounters) {
    std::int64_t value = -1;
    worked(damacy_pipeline_counter(pipeline, counter.name.data(), &value), counter.name);
    EXPECT_GE(value, 0) << counter.name;
  }
  damacy_pipeline_destroy(pipeline);
}

// A value of each field of an array, as text.
const std::map<std::string_view, const char*> kSpecTexts{
    {"dtype", "uint8"},     {"cf", "true"},          {"scale", "0.5,1"}, {"offset", "2"},     {"clip_low", "-1"},
    {"clip_high", "250.5"}, {"rounding", "nearest"}, {"missing", "nan"}, {"pad", "y=wrap,0"}, {"channels", "2,0"},
    {"channel_axis", "-1"}, {"axes", "z,y,x"},       {"order", "y,,x"},
};

TEST_F(FieldsInC, each_field_of_an_array_can_be_set) {
  worked(damacy_options_add_array(options_, "x", DAMACY_F32), "arrays");
  const auto set = [&](std::string_view name) {
    ASSERT_TRUE(kSpecTexts.contains(name)) << name;
    worked(damacy_options_set_array(options_, "x", name.data(), kSpecTexts.at(name)), name);
  };
  std::apply([&](const auto&... line) { (set(line.name), ...); }, kSpecFields);
}

TEST_F(FieldsInC, a_field_of_an_array_is_refused_with_what_it_may_be) {
  worked(damacy_options_add_array(options_, "x", DAMACY_F32), "arrays");
  const auto refused = [&](const char* array, const char* field, const char* value, const char* why) {
    EXPECT_EQ(damacy_options_set_array(options_, array, field, value), DAMACY_INVAL) << field;
    EXPECT_NE(std::string(damacy_error_text()).find(why), std::string::npos) << damacy_error_text();
  };
  refused("y", "scale", "1", "no array \"y\" was added");
  refused("x", "sclae", "1", "there are: dtype, cf, scale");
  refused("x", "scale", "", "scale: expected a number, or one for each channel");
  refused("x", "scale", "1,a", "scale: expected a number (got \"a\")");
  refused("x", "channels", "1.5", "channels: expected an integer (got \"1.5\")");
  refused("x", "cf", "yes", "cf: expected true or false (got \"yes\")");
  refused("x", "dtype", "complex64", "dtype: expected a dtype");
  refused("x", "rounding", "up", "there are: truncate, nearest");
  refused("x", "pad", "y=mirror", "there are: edge, reflect, symmetric, wrap");
  refused("x", "order", nullptr, "value");
}

template <class Value>
Value read(std::string_view text) {
  Value value{};
  detail::TextValue("name", text).to(value);
  return value;
}

TEST(TextValue, is_what_the_text_says) {
  EXPECT_EQ(read<Number>("7"), Number(std::int64_t{7}));
  EXPECT_EQ(read<Number>("18446744073709551615"), Number(std::uint64_t{18446744073709551615u}));
  EXPECT_EQ(read<Number>("0.5"), Number(0.5));
  EXPECT_EQ(read<std::vector<int>>("403,404"), (std::vector{403, 404}));
  EXPECT_TRUE(read<std::vector<int>>("").empty());
  EXPECT_EQ(read<AxisKey>("y"), (AxisKey{"y"}));
  EXPECT_EQ(read<AxisKey>("-1"), (AxisKey{"", -1}));
  using Order = std::vector<std::optional<AxisKey>>;
  EXPECT_EQ(read<Order>("y,,x"), (Order{AxisKey{"y"}, std::nullopt, AxisKey{"x"}}));
  EXPECT_EQ(read<Order>("y,"), (Order{AxisKey{"y"}, std::nullopt}));

  ChannelNumbers scale = 1.0;
  detail::TextValue("scale", "2").to(scale);
  EXPECT_TRUE(scale.is(2));
  detail::TextValue("scale", "2,3").to(scale);
  EXPECT_TRUE(scale.by_channel);
  EXPECT_EQ(scale.values, (std::vector{2.0, 3.0}));

  const auto pads = read<std::vector<Pad>>("y=reflect,-1=0");
  ASSERT_EQ(pads.size(), 2u);
  EXPECT_EQ(pads[0].axis, (AxisKey{"y"}));
  EXPECT_EQ(pads[0].border, Border::reflect);
  EXPECT_EQ(pads[1].axis, (AxisKey{"", -1}));
  EXPECT_EQ(pads[1].border, Border::constant);
  EXPECT_EQ(pads[1].value, Number(std::int64_t{0}));
  EXPECT_EQ(read<std::vector<Pad>>("edge").front().axis, std::nullopt);

  std::vector<std::pair<std::string, std::string>> headers;
  detail::TextValue("headers", "A: b: c").to(headers);
  detail::TextValue("headers", "D:").to(headers);
  EXPECT_EQ(headers, (std::vector<std::pair<std::string, std::string>>{{"A", "b: c"}, {"D", ""}}));
}

class StoresInC : public ::testing::Test {
 protected:
  static constexpr const char* kPrefix = "https://stores-in-c.invalid/";
  StoresInC() { EXPECT_EQ(damacy_store_options_create(&options_), DAMACY_OK); }
  ~StoresInC() override { damacy_store_options_destroy(options_); }
  int set(std::string_view name, const char* value) { return damacy_store_options_set(options_, name.data(), value); }

  damacy_store_options* options_ = nullptr;
};

// A value that its type can have; whether it means something is asked when it is mounted.
template <class Value>
const char* text_for() {
  if constexpr (std::is_same_v<Value, bool> || std::is_same_v<Value, std::optional<bool>>) return "true";
  if constexpr (std::is_same_v<Value, std::vector<std::pair<std::string, std::string>>>) return "Name: value";
  return "1";
}

TEST_F(StoresInC, each_field_but_the_function_can_be_set) {
  for_store_fields([&](const auto& field) {
    using Value = std::remove_cvref_t<decltype(StoreOptions{}.*field.member)>;
    constexpr bool is_function = std::is_same_v<Value, std::function<Credentials()>>;
    EXPECT_EQ(set(field.name, text_for<Value>()), is_function ? DAMACY_INVAL : DAMACY_OK) << field.name;
  });
}

TEST_F(StoresInC, options_are_mounted_as_they_were_set) {
  EXPECT_EQ(set("attempts", "3"), DAMACY_OK);
  EXPECT_EQ(set("deadline_s", "30.5"), DAMACY_OK);
  EXPECT_EQ(set("absent_status", "403,404"), DAMACY_OK);
  EXPECT_EQ(set("headers", "X-One: 1"), DAMACY_OK);
  ASSERT_EQ(damacy_mount(kPrefix, options_), DAMACY_OK) << damacy_error_text();
  const auto mounted = mounted_options_of_uri(std::string(kPrefix) + "a.zarr");
  ASSERT_TRUE(mounted);
  EXPECT_EQ(mounted->attempts, 3);
  EXPECT_EQ(mounted->deadline_s, 30.5);
  EXPECT_EQ(mounted->absent_status, (std::vector{403, 404}));
  EXPECT_EQ(mounted->headers.front().second, "1");
  EXPECT_EQ(damacy_unmount(kPrefix), DAMACY_OK);
  EXPECT_EQ(damacy_unmount(kPrefix), DAMACY_INVAL);
}

TEST_F(StoresInC, what_is_wrong_is_refused_without_its_secrets) {
  EXPECT_EQ(set("secret", "x"), DAMACY_INVAL);
  EXPECT_NE(std::string(damacy_error_text()).find("there are: endpoint, region"), std::string::npos);
  EXPECT_EQ(set("attempts", "many"), DAMACY_INVAL);
  EXPECT_EQ(set("headers", "hidden"), DAMACY_INVAL);
  EXPECT_EQ(std::string(damacy_error_text()).find("hidden"), std::string::npos) << damacy_error_text();
  EXPECT_EQ(set("attempts", "0"), DAMACY_OK);
  EXPECT_EQ(damacy_mount(kPrefix, options_), DAMACY_INVAL);  // the store's own check
  EXPECT_NE(std::string(damacy_error_text()).find("attempts"), std::string::npos) << damacy_error_text();
  EXPECT_EQ(damacy_mount(nullptr, options_), DAMACY_INVAL);
}

}  // namespace
}  // namespace damacy
