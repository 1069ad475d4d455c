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

AxisKey axis_of(const nb::handle& axis) {
  if (nb::isinstance<nb::str>(axis)) return {nb::cast<std::string>(axis)};
  return {"", nb::cast<std::int64_t>(axis)};
}

std::optional<Number> number_of(const nb::handle& value) {
  if (value.is_none()) return std::nullopt;
  if (PyFloat_Check(value.ptr())) return Number(nb::cast<double>(value));
  int overflow = 0;
  const long long integer = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) return Number(std::int64_t{integer});
  const unsigned long long natural = overflow > 0 ? PyLong_AsUnsignedLongLong(value.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    return Number(PyLong_AsDouble(value.ptr()));
  }
  return Number(std::uint64_t{natural});
}

Border border_of(const std::string& name) {
  if (name == "edge") return Border::edge;
  if (name == "reflect") return Border::reflect;
  if (name == "symmetric") return Border::symmetric;
  if (name == "wrap") return Border::wrap;
  throw Error(Status::inval, formatted("pad: no border is called {}", name));
}

Pad pad_of(const nb::handle& axis, const nb::handle& border) {
  Pad pad;
  if (!axis.is_none()) pad.axis = axis_of(axis);
  if (nb::isinstance<nb::str>(border)) {
    pad.border = border_of(nb::cast<std::string>(border));
  } else {
    pad.border = Border::constant;
    pad.value = *number_of(border);
  }
  return pad;
}

template <class T>
void take_all(const nb::handle& values, std::vector<T>& into) {
  if (values.is_none()) return;
  for (const nb::handle value : values) into.push_back(nb::cast<T>(value));
}

ArraySpec spec_of(const nb::dict& fields) {
  ArraySpec spec;
  if (const auto dtype = nb::cast<std::optional<int>>(fields["dtype"])) spec.dtype = static_cast<Dtype>(*dtype);
  spec.cf = nb::cast<std::optional<bool>>(fields["cf"]);
  spec.scale = numbers_of(fields["scale"]);
  spec.offset = numbers_of(fields["offset"]);
  spec.clip_low = number_of(fields["clip"][0]);
  spec.clip_high = number_of(fields["clip"][1]);
  spec.rounding = nb::cast<bool>(fields["rounding"]) ? Rounding::nearest : Rounding::truncate;
  spec.missing = number_of(fields["missing"]);
  for (const nb::handle pad : fields["pad"]) spec.pad.push_back(pad_of(pad[0], pad[1]));
  take_all(fields["channels"], spec.channels);
  if (!fields["channel_axis"].is_none()) spec.channel_axis = axis_of(fields["channel_axis"]);
  take_all(fields["axes"], spec.axes);
  if (fields["order"].is_none()) return spec;
  spec.order.emplace();
  for (const nb::handle axis : fields["order"])
    spec.order->push_back(axis.is_none() ? std::nullopt : std::optional(axis_of(axis)));
  return spec;
}

}  // namespace

ChannelNumbers numbers_of(const nb::handle& value) {
  if (PyFloat_Check(value.ptr())) return nb::cast<double>(value);
  std::vector<double> each;
  take_all(value, each);
  return each;
}

std::vector<AxisKey> axes_of(const nb::handle& axes) {
  std::vector<AxisKey> keys;
  if (axes.is_none()) return keys;
  for (const nb::handle axis : axes) keys.push_back(axis_of(axis));
  return keys;
}

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
  c.host_cache_bytes = number("host_cache_bytes");
  c.shared_cache = nb::cast<std::string>(fields["shared_cache"]);
  c.shared_cache_bytes = number("shared_cache_bytes");
  c.device_cache_bytes = number("device_cache_bytes");
  c.disk_cache = nb::cast<std::string>(fields["disk_cache"]);
  c.disk_cache_bytes = number("disk_cache_bytes");
  c.disk_cache_shared = nb::cast<bool>(fields["disk_cache_shared"]);
  c.gpu_decoder = decoder_of(nb::cast<std::string>(fields["gpu_decoder"]));
  c.verify = verify_of(nb::cast<std::string>(fields["verify"]));
  c.keep_bytes = nb::cast<std::optional<std::int64_t>>(fields["keep_bytes"]);
  for (const nb::handle array : nb::cast<nb::list>(fields["arrays"])) {
    c.arrays.push_back({nb::cast<std::string>(array[0]), spec_of(nb::cast<nb::dict>(array[1]))});
  }
  return c;
}

}  // namespace damacy::python
