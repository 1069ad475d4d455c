// Pipelines and batches of the C interface.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/batch/batch.h"
#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"
#include "damacy/batch/stats.h"
#include "damacy/c.h"
#include "damacy/c/detail/calls.h"
#include "damacy/pipeline/pipeline.h"

using damacy::Config;
using damacy::Error;
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

template <class Member>
struct Named {
  std::string_view name;
  Member member;
};

constexpr Named<std::int64_t Config::*> kIntegers[] = {
    {"batch_size", &Config::batch_size},
    {"host_buffer_bytes", &Config::host_buffer_bytes},
    {"device_buffer_bytes", &Config::device_buffer_bytes},
    {"lookahead_batches", &Config::lookahead_batches},
    {"n_io_threads", &Config::n_io_threads},
    {"n_compute_threads", &Config::n_compute_threads},
    {"n_zarrs_meta_cache", &Config::n_zarrs_meta_cache},
    {"n_shards_meta_cache", &Config::n_shards_meta_cache},
    {"max_chunk_uncompressed_bytes", &Config::max_chunk_uncompressed_bytes},
    {"max_gpu_memory_bytes", &Config::max_gpu_memory_bytes},
    {"max_bytes_per_element", &Config::max_bytes_per_element},
    {"n_batches", &Config::n_batches},
    {"cache_bytes", &Config::cache_bytes},
    {"host_cache_bytes", &Config::host_cache_bytes},
    {"shared_cache_bytes", &Config::shared_cache_bytes},
    {"device_cache_bytes", &Config::device_cache_bytes},
};

constexpr Named<std::int64_t Stats::*> kCounters[] = {
    {"zarr_meta_hits", &Stats::zarr_meta_hits},
    {"zarr_meta_misses", &Stats::zarr_meta_misses},
    {"shard_idx_hits", &Stats::shard_idx_hits},
    {"shard_idx_misses", &Stats::shard_idx_misses},
    {"batches_emitted", &Stats::batches_emitted},
    {"batches_truncated", &Stats::batches_truncated},
    {"waves_emitted", &Stats::waves_emitted},
    {"gpu_bytes_committed", &Stats::gpu_bytes_committed},
    {"chunks_decoded", &Stats::chunks_decoded},
    {"chunks_deduplicated", &Stats::chunks_deduplicated},
    {"bytes_read", &Stats::bytes_read},
    {"reads_issued", &Stats::reads_issued},
    {"samples_skipped", &Stats::samples_skipped},
    {"samples_filled", &Stats::samples_filled},
    {"host_bytes_committed", &Stats::host_bytes_committed},
    {"chunks_decoded_on_host", &Stats::chunks_decoded_on_host},
    {"cache_hits", &Stats::cache_hits},
    {"cache_misses", &Stats::cache_misses},
    {"cache_kept", &Stats::cache_kept},
    {"cache_evicted", &Stats::cache_evicted},
    {"cache_hits_bytes", &Stats::cache_hits_bytes},
    {"cache_misses_bytes", &Stats::cache_misses_bytes},
    {"cache_kept_bytes", &Stats::cache_kept_bytes},
    {"cache_evicted_bytes", &Stats::cache_evicted_bytes},
    {"host_cache_hits", &Stats::host_cache_hits},
    {"host_cache_misses", &Stats::host_cache_misses},
    {"host_cache_kept", &Stats::host_cache_kept},
    {"host_cache_evicted", &Stats::host_cache_evicted},
    {"host_cache_hits_bytes", &Stats::host_cache_hits_bytes},
    {"host_cache_misses_bytes", &Stats::host_cache_misses_bytes},
    {"host_cache_kept_bytes", &Stats::host_cache_kept_bytes},
    {"host_cache_evicted_bytes", &Stats::host_cache_evicted_bytes},
    {"device_cache_hits", &Stats::device_cache_hits},
    {"device_cache_misses", &Stats::device_cache_misses},
    {"device_cache_kept", &Stats::device_cache_kept},
    {"device_cache_evicted", &Stats::device_cache_evicted},
    {"device_cache_hits_bytes", &Stats::device_cache_hits_bytes},
    {"device_cache_misses_bytes", &Stats::device_cache_misses_bytes},
    {"device_cache_kept_bytes", &Stats::device_cache_kept_bytes},
    {"device_cache_evicted_bytes", &Stats::device_cache_evicted_bytes},
    {"requests", &Stats::requests},
    {"requests_repeated", &Stats::requests_repeated},
    {"requests_throttled", &Stats::requests_throttled},
    {"requests_hedged", &Stats::requests_hedged},
    {"hedges_won", &Stats::hedges_won},
    {"requests_in_flight", &Stats::requests_in_flight},
    {"requests_in_flight_best", &Stats::requests_in_flight_best},
    {"connections_opened", &Stats::connections_opened},
    {"bytes_received", &Stats::bytes_received},
    {"documents_revalidated", &Stats::documents_revalidated},
    {"slots_added", &Stats::slots_added},
    {"slots_dropped", &Stats::slots_dropped},
    {"kept_bytes_committed", &Stats::kept_bytes_committed},
    {"bytes_padded", &Stats::bytes_padded},
};

constexpr Named<damacy::OnError> kOnError[] = {
    {"raise", damacy::OnError::raise}, {"skip", damacy::OnError::skip}, {"fill", damacy::OnError::fill}};
constexpr Named<damacy::GpuDecoderChoice> kDecoders[] = {{"auto", damacy::GpuDecoderChoice::automatic},
                                                         {"own", damacy::GpuDecoderChoice::own},
                                                         {"nvcomp", damacy::GpuDecoderChoice::nvcomp}};
constexpr Named<damacy::Verify> kVerify[] = {{"needed", damacy::Verify::needed}, {"whole", damacy::Verify::whole}};

// The entry of that name; `what` names the table in the error, which lists the names.
template <class Member, std::size_t n>
Member find(const Named<Member> (&table)[n], std::string_view name, std::string_view what) {
  for (const auto& entry : table)
    if (entry.name == name) return entry.member;
  std::string names;
  for (const auto& entry : table) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  throw Error(Status::inval, damacy::formatted("no {} \"{}\"; there are: {}", what, name, names), "arguments");
}

damacy::Dtype dtype_of(std::string_view name) {
  for (int code = 0; code < damacy::kBatchDtypes; ++code)
    if (damacy::name_of(static_cast<damacy::Dtype>(code)) == name) return static_cast<damacy::Dtype>(code);
  throw Error(Status::inval, damacy::formatted("no dtype \"{}\"; one is \"float32\"", name), "arguments");
}

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
              damacy::formatted("no device \"{}\"; expected \"auto\", \"cpu\", \"cuda\" or \"cuda:INDEX\"", name),
              "arguments");
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
  if (row < 0 || row >= rows) throw Error(Status::inval, damacy::formatted("row {} of {}", row, rows), "arguments");
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
    if (option == "keep_bytes")
      config.keep_bytes = value;
    else
      config.*find(kIntegers, option, "integer option") = value;
  });
}

int damacy_options_set_number(damacy_options* options, const char* name, double value) {
  return status_of([&] {
    Config& config = needed(options, "options").config;
    constexpr Named<std::optional<double> Config::*> kNumbers[] = {{"pop_timeout_s", &Config::pop_timeout_s}};
    config.*find(kNumbers, &needed(name, "name"), "option that is a number") = value;
  });
}

int damacy_options_set_text(damacy_options* options, const char* name, const char* value) {
  return status_of([&] {
    Config& config = needed(options, "options").config;
    const std::string_view option = &needed(name, "name"), text = &needed(value, "value");
    if (option == "device")
      config.device = device_of(text);
    else if (option == "dtype")
      config.dtype = dtype_of(text);
    else if (option == "on_error")
      config.on_error = find(kOnError, text, option);
    else if (option == "gpu_decoder")
      config.gpu_decoder = find(kDecoders, text, option);
    else if (option == "verify")
      config.verify = find(kVerify, text, option);
    else if (option == "shared_cache")
      config.shared_cache = text;
    else
      throw Error(
          Status::inval,
          damacy::formatted(
              "no text option \"{}\"; there are: device, dtype, on_error, gpu_decoder, verify, shared_cache", option),
          "arguments");
  });
}

int damacy_options_add_array(damacy_options* options, const char* name, int dtype) {
  return status_of([&] {
    damacy::NamedArraySpec array{&needed(name, "name"), {}};
    array.spec.dtype = damacy::detail::enumerator(dtype, damacy::Dtype::boolean, "dtype");
    needed(options, "options").config.arrays.push_back(std::move(array));
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
    needed(value, "value") = stats.*find(kCounters, &needed(name, "name"), "counter");
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
