// Pipelines and batches of the C interface.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "damacy/batch/batch.h"
#include "damacy/batch/config.h"
#include "damacy/batch/fields.h"
#include "damacy/batch/sample.h"
#include "damacy/c.h"
#include "damacy/c/detail/calls.h"
#include "damacy/c/detail/text_values.h"
#include "damacy/fetch/stats.h"
#include "damacy/pipeline/pipeline.h"

using damacy::Config;
using damacy::Error;
using damacy::find_named;
using damacy::formatted;
using damacy::Stats;
using damacy::Status;
using damacy::detail::entries;
using damacy::detail::needed;
using damacy::detail::status_of;

struct damacy_options {
  Config config;
};

struct damacy_samples {
  std::vector<damacy::Sample> samples;
};

struct damacy_pipeline {
  damacy::Pipeline pipeline;
};

struct damacy_batch {
  damacy::Batch batch;
};

namespace {

damacy::DeviceChoice device_of(std::string_view name) {
  using Kind = damacy::DeviceChoice::Kind;
  if (name == "auto") return {Kind::automatic};
  if (name == "cpu") return {Kind::cpu};
  if (name == "cuda") return {Kind::cuda};
  constexpr std::string_view kPrefix = "cuda:";
  int index = -1;
  if (name.starts_with(kPrefix)) {
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + kPrefix.size(), end, index);
    if (read.ec == std::errc() && read.ptr == end && index >= 0) return {Kind::index, index};
  }
  throw Error(Status::inval,
              formatted("no device \"{}\"; expected \"auto\", \"cpu\", \"cuda\" or \"cuda:INDEX\"", name), "arguments");
}

damacy::Sample::Ranges ranges_of(int rank, const int64_t* start, const int64_t* stop, const int64_t* step) {
  const auto starts = entries(start, rank, "start"), stops = entries(stop, rank, "stop");
  damacy::Sample::Ranges ranges;
  for (std::size_t axis = 0; axis < starts.size(); ++axis)
    ranges.push_back({starts[axis], stops[axis], step == nullptr ? 1 : step[axis]});
  return ranges;
}

std::optional<std::string_view> array_name(const char* name) {
  return name == nullptr ? std::nullopt : std::optional<std::string_view>(name);
}

std::size_t checked_row(const damacy_batch* batch, int64_t row) {
  const auto rows = std::ssize(needed(batch, "batch").batch.valid());
  if (row < 0 || row >= rows) throw Error(Status::inval, formatted("row {} of {}", row, rows), "arguments");
  return static_cast<std::size_t>(row);
}

}  // namespace

int damacy_options_create(damacy_options** out) {
  return status_of([&] { needed(out, "out") = std::make_unique<damacy_options>().release(); });
}

void damacy_options_destroy(damacy_options* options) {
  const std::unique_ptr<damacy_options> owner(options);
}

int damacy_options_set_integer(damacy_options* options, const char* name, int64_t value) {
  return status_of([&] {
    Config& config = needed(options, "options").config;
    const std::string_view option = &needed(name, "name");
    for (const auto& [optional, member] : damacy::kOptionalIntegerSettings)
      if (optional == option) return static_cast<void>(config.*member = value);
    for (const auto& [flag, member] : damacy::kFlagSettings)
      if (flag == option) return static_cast<void>(config.*member = value != 0);
    config.*find_named(damacy::kIntegerSettings, option, "integer option") = value;
  });
}

int damacy_options_set_number(damacy_options* options, const char* name, double value) {
  return status_of([&] {
    Config& config = needed(options, "options").config;
    config.*find_named(damacy::kNumberSettings, &needed(name, "name"), "option that is a number") = value;
  });
}

int damacy_options_set_text(damacy_options* options, const char* name, const char* value) {
  return status_of([&] {
    Config& config = needed(options, "options").config;
    const std::string_view option = &needed(name, "name"), text = &needed(value, "value");
    if (option == "device") return static_cast<void>(config.device = device_of(text));
    if (option == "dtype") return damacy::detail::TextValue(option, text).to(config.dtype);
    bool is_set = false;
    std::string names = "device, dtype";
    damacy::for_named_settings([&](std::string_view setting, auto member, const auto& values) {
      names += formatted(", {}", setting);
      if (option != setting) return;
      config.*member = find_named(values, text, option);
      is_set = true;
    });
    for (const auto& [setting, member] : damacy::kTextSettings) {
      names += formatted(", {}", setting);
      if (option != setting) continue;
      config.*member = text;
      is_set = true;
    }
    if (!is_set)
      throw Error(Status::inval, formatted("no text option \"{}\"; there are: {}", option, names), "arguments");
  });
}

int damacy_options_add_array(damacy_options* options, const char* name, int dtype) {
  return status_of([&] {
    damacy::NamedArraySpec array{&needed(name, "name"), {}};
    array.spec.dtype = damacy::detail::enumerator(dtype, damacy::Dtype::boolean, "dtype");
    needed(options, "options").config.arrays.push_back(std::move(array));
  });
}

int damacy_options_set_array(damacy_options* options, const char* array, const char* field, const char* value) {
  return status_of([&] {
    auto& arrays = needed(options, "options").config.arrays;
    const std::string_view array_name = &needed(array, "array"), name = &needed(field, "field");
    const damacy::detail::TextValue text(name, &needed(value, "value"));
    const auto found = std::ranges::find(arrays, array_name, &damacy::NamedArraySpec::name);
    if (found == arrays.end())
      throw Error(Status::inval, formatted("no array \"{}\" was added", array_name), "arguments");
    bool is_set = false;
    std::string names;
    const auto set = [&](const auto& line) {
      names += formatted("{}{}", names.empty() ? "" : ", ", line.name);
      if (line.name != name) return;
      text.to(found->spec.*line.value);
      is_set = true;
    };
    std::apply([&](const auto&... line) { (set(line), ...); }, damacy::kSpecFields);
    if (!is_set)
      throw Error(Status::inval, formatted("no field \"{}\" of an array; there are: {}", name, names), "arguments");
  });
}

int damacy_samples_create(damacy_samples** out) {
  return status_of([&] { needed(out, "out") = std::make_unique<damacy_samples>().release(); });
}

void damacy_samples_destroy(damacy_samples* samples) {
  const std::unique_ptr<damacy_samples> owner(samples);
}

int damacy_samples_add(damacy_samples* samples, const char* uri, int rank, const int64_t* start, const int64_t* stop,
                       const int64_t* step) {
  return status_of([&] {
    damacy::Sample sample{&needed(uri, "uri"), ranges_of(rank, start, stop, step)};
    needed(samples, "samples").samples.push_back(std::move(sample));
  });
}

int damacy_samples_add_empty(damacy_samples* samples) {
  return status_of([&] { needed(samples, "samples").samples.emplace_back(); });
}

int damacy_samples_add_part(damacy_samples* samples, const char* name, const char* uri, int rank, const int64_t* start,
                            const int64_t* stop, const int64_t* step) {
  return status_of([&] {
    auto& all = needed(samples, "samples").samples;
    if (all.empty() || !all.back().uri.empty())
      throw Error(Status::inval, "the last sample is no empty one: call damacy_samples_add_empty first", "arguments");
    all.back().parts.push_back({&needed(name, "name"), &needed(uri, "uri"), ranges_of(rank, start, stop, step)});
  });
}

int damacy_pipeline_create(const damacy_options* options, damacy_pipeline** out) {
  return status_of([&] {
    auto& to = needed(out, "out");
    to = std::make_unique<damacy_pipeline>(damacy_pipeline{damacy::Pipeline(needed(options, "options").config)})
             .release();
  });
}

void damacy_pipeline_destroy(damacy_pipeline* pipeline) {
  const std::unique_ptr<damacy_pipeline> owner(pipeline);
}

int damacy_pipeline_push(damacy_pipeline* pipeline, damacy_samples* samples) {
  return status_of([&] {
    auto& to = needed(pipeline, "pipeline").pipeline;
    to.push(std::exchange(needed(samples, "samples").samples, {}));
  });
}

int damacy_pipeline_pop(damacy_pipeline* pipeline, double timeout_s, damacy_batch** out) {
  return status_of([&] {
    auto& from = needed(pipeline, "pipeline").pipeline;
    auto& to = needed(out, "out");
    const auto timeout = damacy::detail::timeout_of(timeout_s);
    to = std::make_unique<damacy_batch>(damacy_batch{timeout ? from.pop(*timeout) : from.pop()}).release();
  });
}

int damacy_pipeline_flush(damacy_pipeline* pipeline) {
  return status_of([&] { needed(pipeline, "pipeline").pipeline.flush(); });
}

int damacy_pipeline_close(damacy_pipeline* pipeline) {
  return status_of([&] { needed(pipeline, "pipeline").pipeline.close(); });
}

int damacy_pipeline_counter(const damacy_pipeline* pipeline, const char* name, int64_t* value) {
  return status_of([&] {
    const Stats stats = needed(pipeline, "pipeline").pipeline.stats();
    needed(value, "value") = stats.*find_named(damacy::kCounters, &needed(name, "name"), "counter");
  });
}

int damacy_batch_rank(const damacy_batch* batch, const char* name, int* rank) {
  return status_of([&] {
    needed(rank, "rank") = static_cast<int>(needed(batch, "batch").batch.info(array_name(name)).shape.size());
  });
}

int damacy_batch_shape(const damacy_batch* batch, const char* name, int64_t* shape) {
  return status_of([&] {
    const damacy::Dims dims = needed(batch, "batch").batch.info(array_name(name)).shape;
    std::ranges::copy(dims, entries(shape, static_cast<std::int64_t>(dims.size()), "shape").begin());
  });
}

int damacy_batch_dtype(const damacy_batch* batch, const char* name, int* dtype) {
  return status_of(
      [&] { needed(dtype, "dtype") = static_cast<int>(needed(batch, "batch").batch.info(array_name(name)).dtype); });
}

int damacy_batch_data(const damacy_batch* batch, const char* name, const void** data) {
  return status_of([&] {
    const auto address = needed(batch, "batch").batch.info(array_name(name)).device_ptr;
    needed(data, "data") = reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
  });
}

int damacy_batch_device(const damacy_batch* batch, int* type, int* index) {
  return status_of([&] {
    const damacy::DlDevice device = needed(batch, "batch").batch.device();
    needed(type, "type") = device.type;
    needed(index, "index") = device.index;
  });
}

int damacy_batch_row_valid(const damacy_batch* batch, int64_t row, int* valid) {
  return status_of([&] {
    const std::size_t at = checked_row(batch, row);
    needed(valid, "valid") = batch->batch.valid()[at] ? 1 : 0;
  });
}

int damacy_batch_row_index(const damacy_batch* batch, int64_t row, int64_t* index) {
  return status_of([&] {
    const std::size_t at = checked_row(batch, row);
    needed(index, "index") = batch->batch.sample_indices().at(at);
  });
}

int damacy_batch_to_dlpack(const damacy_batch* batch, const char* name, struct DLManagedTensor** out) {
  return status_of([&] {
    damacy::Batch::Export how;
    how.array = array_name(name);
    auto& to = needed(out, "out");
    to = needed(batch, "batch").batch.to_dlpack(how);
  });
}

void damacy_batch_destroy(damacy_batch* batch) {
  const std::unique_ptr<damacy_batch> owner(batch);
}
