#include "config_fields.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

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

Pad pad_of(const nb::handle& axis, const nb::handle& border) {
  Pad pad;
  if (!axis.is_none()) pad.axis = axis_of(axis);
  if (nb::isinstance<nb::str>(border)) {
    pad.border = find_named(kBorders, nb::cast<std::string>(border), "border");
  } else {
    pad.border = Border::constant;
    pad.value = *number_of(border);
  }
  return pad;
}

// Values of ArraySpec._native() in Python.
template <class T>
void take(const nb::handle& values, std::vector<T>& to) {
  if (values.is_none()) return;
  for (const nb::handle value : values) to.push_back(nb::cast<T>(value));
}
void take(const nb::handle& value, std::optional<Dtype>& to) {
  if (const auto dtype = nb::cast<std::optional<int>>(value)) to = static_cast<Dtype>(*dtype);
}
void take(const nb::handle& value, std::optional<bool>& to) {
  to = nb::cast<std::optional<bool>>(value);
}
void take(const nb::handle& value, ChannelNumbers& to) {
  to = numbers_of(value);
}
void take(const nb::handle& value, std::optional<Number>& to) {
  to = number_of(value);
}
void take(const nb::handle& value, Rounding& to) {
  to = nb::cast<bool>(value) ? Rounding::nearest : Rounding::truncate;
}
void take(const nb::handle& value, std::vector<Pad>& to) {
  for (const nb::handle pad : value) to.push_back(pad_of(pad[0], pad[1]));
}
void take(const nb::handle& value, std::optional<AxisKey>& to) {
  if (!value.is_none()) to = axis_of(value);
}
void take(const nb::handle& value, std::optional<std::vector<std::optional<AxisKey>>>& to) {
  if (value.is_none()) return;
  to.emplace();
  for (const nb::handle axis : value) take(axis, to->emplace_back());
}

nb::object field_of(const nb::dict& fields, std::string_view name) {
  return fields[nb::str(name.data(), name.size())];
}

ArraySpec spec_of(const nb::dict& fields) {
  ArraySpec spec;
  std::apply([&](const auto&... field) { (take(field_of(fields, field.name), spec.*field.value), ...); }, kSpecFields);
  return spec;
}

}  // namespace

ChannelNumbers numbers_of(const nb::handle& value) {
  if (PyFloat_Check(value.ptr())) return nb::cast<double>(value);
  std::vector<double> each;
  take(value, each);
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
  const auto set = [&](std::string_view name, auto& to) {
    to = nb::cast<std::remove_reference_t<decltype(to)>>(field_of(fields, name));
  };
  for (const auto& [name, member] : kIntegerSettings) set(name, c.*member);
  for (const auto& [name, member] : kOptionalIntegerSettings) set(name, c.*member);
  for (const auto& [name, member] : kNumberSettings) set(name, c.*member);
  for (const auto& [name, member] : kFlagSettings) set(name, c.*member);
  for (const auto& [name, member] : kTextSettings) set(name, c.*member);
  for_named_settings([&](std::string_view name, auto member, const auto& values) {
    std::string chosen;
    set(name, chosen);
    c.*member = find_named(values, chosen, name);
  });
  c.dtype = static_cast<Dtype>(nb::cast<int>(fields["dtype"]));
  c.device = device_of(nb::cast<std::string>(fields["device"]));
  for (const nb::handle array : nb::cast<nb::list>(fields["arrays"]))
    c.arrays.push_back({nb::cast<std::string>(array[0]), spec_of(nb::cast<nb::dict>(array[1]))});
  return c;
}

}  // namespace damacy::python
