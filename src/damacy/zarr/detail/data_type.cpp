#include "damacy/zarr/detail/data_type.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "damacy/core/formatted.h"
#include "damacy/zarr/detail/extension.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

constexpr int kDtypes = static_cast<int>(Dtype::timedelta64) + 1;

std::optional<Dtype> dtype_named(std::string_view name) {
  if (name == "complex_float32") return Dtype::complex64;
  if (name == "complex_float64") return Dtype::complex128;
  for (int i = 0; i < kDtypes; ++i)
    if (name_of(static_cast<Dtype>(i)) == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

bool is_time(Dtype dtype) {
  return dtype == Dtype::datetime64 || dtype == Dtype::timedelta64;
}

bool is_time_unit(std::string_view unit) {
  constexpr std::array<std::string_view, 16> kUnits = {"generic", "Y",  "M",  "W",       "D",  "h",  "m",  "s",
                                                       "ms",      "us", "μs", "\u00b5s", "ns", "ps", "fs", "as"};
  return std::find(kUnits.begin(), kUnits.end(), unit) != kUnits.end();
}

void check_time_configuration(const Extension& type) {
  type.allow({"unit", "scale_factor"}, "data-type");
  const Value unit = type.required("unit");
  if (!is_time_unit(unit.expect(Kind::string).text()))
    throw unit.unsupported(formatted("time unit '{}' is not supported", unit.text()), "data-type");
  const Value scale = type.required("scale_factor");
  if (scale.integer(1) > 0x7fffffff)
    throw scale.error(Status::decode, formatted("scale factor {} is not below 2^31", scale.text()), "metadata");
}

// The kinds of v2's `<kind><bytes>` that are read.
std::optional<Dtype> dtype_of_letters(std::string_view letters) {
  constexpr std::pair<std::string_view, Dtype> kLetters[] = {
      {"b1", Dtype::boolean},   {"i1", Dtype::i8},         {"u1", Dtype::u8},  {"i2", Dtype::i16},
      {"u2", Dtype::u16},       {"i4", Dtype::i32},        {"u4", Dtype::u32}, {"i8", Dtype::i64},
      {"u8", Dtype::u64},       {"f2", Dtype::f16},        {"f4", Dtype::f32}, {"f8", Dtype::f64},
      {"c8", Dtype::complex64}, {"c16", Dtype::complex128}};
  for (const auto& [known, dtype] : kLetters)
    if (letters == known) return dtype;
  return std::nullopt;
}

// `M8[10us]`, `m8[ns]`.
std::optional<Dtype> time_of_letters(std::string_view letters) {
  const bool is_point = letters.starts_with("M8[");
  if ((!is_point && !letters.starts_with("m8[")) || !letters.ends_with(']')) return std::nullopt;
  auto unit = letters.substr(3, letters.size() - 4);
  const auto digits = std::min(unit.find_first_not_of("0123456789"), unit.size());
  if (digits != 0) {
    std::int32_t count = 0;
    const auto parsed = std::from_chars(unit.data(), unit.data() + digits, count);
    if (parsed.ec != std::errc{} || count < 1) return std::nullopt;
  }
  if (!is_time_unit(unit.substr(digits))) return std::nullopt;
  return is_point ? Dtype::datetime64 : Dtype::timedelta64;
}

}  // namespace

Dtype parse_v3_data_type(const Value& data_type) {
  const Extension type = parse_extension(data_type, "data-type");
  const auto dtype = dtype_named(type.name);
  if (!dtype) throw data_type.unsupported(formatted("data type '{}' is not supported", type.name), "data-type");
  if (is_time(*dtype))
    check_time_configuration(type);
  else
    type.allow({}, "data-type");
  return *dtype;
}

V2Dtype parse_v2_dtype(const Value& dtype) {
  if (dtype.is(Kind::array)) throw dtype.unsupported("a structured data type is not supported", "data-type");
  const auto name = dtype.expect(Kind::string).text();
  const char prefix = name.empty() ? '\0' : name[0];
  const bool has_prefix = prefix == '<' || prefix == '>' || prefix == '|';
  const auto letters = name.substr(has_prefix ? 1 : 0);
  auto known = dtype_of_letters(letters);
  if (!known) known = time_of_letters(letters);
  if (!known) throw dtype.unsupported(formatted("data type '{}' is not supported", name), "data-type");
  if (!has_prefix || (prefix == '|' && size_of(*known) > 1))
    throw dtype.error(Status::decode, formatted("data type '{}' does not say its byte order", name), "metadata");
  return {*known, prefix == '>' && size_of(*known) > 1};
}

std::string shown_data_type(const Value& data_type) {
  if (data_type.is(Kind::string)) return std::string(data_type.text());
  if (!data_type.is(Kind::object)) return data_type.is(Kind::array) ? "structured" : "";
  const auto name = data_type.find("name");
  return name && name->is(Kind::string) ? std::string(name->text()) : "";
}

}  // namespace damacy
