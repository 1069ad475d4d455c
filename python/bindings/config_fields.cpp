#include "config_fields.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::python {
namespace {

OnError on_error_of(const std::string& name) {
  return name == "skip" ? OnError::skip : name == "fill" ? OnError::fill : OnError::raise;
}

GpuDecoderChoice decoder_of(const std::string& name) {
  return name == "own"      ? GpuDecoderChoice::own
         : name == "nvcomp" ? GpuDecoderChoice::nvcomp
                            : GpuDecoderChoice::automatic;
}

Verify verify_of(const std::string& name) {
  return name == "whole" ? Verify::whole : Verify::needed;
}

}  // namespace

DeviceChoice device_of(const std::string& device) {
  if (device.empty()) return {};
  if (device == "cpu") return {DeviceChoice::Kind::cpu};
  if (device == "cuda") return {DeviceChoice::Kind::cuda};
  int index = 0;
  const auto [end, error] = std::from_chars(device.data(), device.data() + device.size(), index);
  if (error != std::errc() || end != device.data() + device.size())
    throw Error(Status::inval, formatted("there is no CUDA device {}", device), "no-device").in_stage("create");
  return {DeviceChoice::Kind::index, index};
}

Config config_of(const nb::dict& fields) {
  Config c;
  const auto number = [&](const char* name) { return nb::cast<std::int64_t>(fields[name]); };
  c.batch_size = number("batch_size");
  c.host_buffer_bytes = number("host_buffer_bytes");
  c.device_buffer_bytes = number("device_buffer_bytes");
  c.dtype = static_cast<Dtype>(number("dtype"));
  c.lookahead_batches = number("lookahead_batches");
  c.n_io_threads = number("n_io_threads");
  c.n_compute_threads = number("n_compute_threads");
  c.n_zarrs_meta_cache = number("n_zarrs_meta_cache");
  c.n_shards_meta_cache = number("n_shards_meta_cache");
  c.max_chunk_uncompressed_bytes = number("max_chunk_uncompressed_bytes");
  c.max_gpu_memory_bytes = number("max_gpu_memory_bytes");
  c.max_bytes_per_element = number("max_bytes_per_element");
  c.device = device_of(nb::cast<std::string>(fields["device"]));
  c.n_batches = number("n_batches");
  c.on_error = on_error_of(nb::cast<std::string>(fields["on_error"]));
  c.pop_timeout_s = nb::cast<std::optional<double>>(fields["pop_timeout_s"]);
  c.cache_bytes = number("cache_bytes");
  c.gpu_decoder = decoder_of(nb::cast<std::string>(fields["gpu_decoder"]));
  c.verify = verify_of(nb::cast<std::string>(fields["verify"]));
  c.keep_bytes = nb::cast<std::optional<std::int64_t>>(fields["keep_bytes"]);
  for (const nb::handle array : nb::cast<nb::list>(fields["arrays"])) {
    NamedArraySpec& named = c.arrays.emplace_back(NamedArraySpec{nb::cast<std::string>(array[0])});
    if (const auto dtype = nb::cast<std::optional<int>>(array[1])) named.spec.dtype = static_cast<Dtype>(*dtype);
  }
  return c;
}

}  // namespace damacy::python
