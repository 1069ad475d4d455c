// The C interface has each field of the tables of batch/fields.h.
#include "damacy/batch/fields.h"

#include <cstdint>
#include <string_view>

#include <gtest/gtest.h>

#include "damacy/c.h"

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

}  // namespace
}  // namespace damacy
