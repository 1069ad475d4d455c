#include "config_fields.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/batch/fields.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::python {
namespace {

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
  const auto take = [&](std::string_view name, auto& to) {
    to = nb::cast<std::remove_reference_t<decltype(to)>>(fields[nb::str(name.data(), name.size())]);
  };
  for (const auto& [name, member] : kIntegerSettings) take(name, c.*member);
  for (const auto& [name, member] : kOptionalIntegerSettings) take(name, c.*member);
  for (const auto& [name, member] : kNumberSettings) take(name, c.*member);
  for (const auto& [name, member] : kFlagSettings) take(name, c.*member);
  for (const auto& [name, member] : kTextSettings) take(name, c.*member);
  for_named_settings([&](std::string_view name, auto member, const auto& values) {
    std::string chosen;
    take(name, chosen);
    c.*member = find_named(values, chosen, name);
  });
  c.dtype = static_cast<Dtype>(nb::cast<int>(fields["dtype"]));
  c.device = device_of(nb::cast<std::string>(fields["device"]));
  for (const nb::handle array : nb::cast<nb::list>(fields["arrays"]))
    c.arrays.push_back({nb::cast<std::string>(array[0]), spec_of(nb::cast<nb::dict>(array[1]))});
  return c;
}

}  // namespace damacy::python
