#include "damacy/zarr/detail/cf_attributes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "damacy/core/formatted.h"
#include "damacy/zarr/detail/fill_value.h"
#include "damacy/zarr/detail/number_text.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

Error unusable(const Value& value, std::string_view expected) {
  return value.error(Status::decode, formatted("expected {} (got {})", expected, shown(value)), "cf");
}

// A number, or the only item of a list.
Value scalar_of(const Value& value) {
  return value.is(Kind::array) && value.size() == 1 ? *value.begin() : value;
}

std::optional<double> finite(const Value& value) {
  if (!value.is_finite_number()) return std::nullopt;
  const auto bits = float_bits(value.text(), FloatFormat::f64);
  return bits ? std::optional(std::bit_cast<double>(*bits)) : std::nullopt;
}

std::optional<double> parse_factor(const Value& attributes, std::string_view name, bool may_be_zero) {
  const auto given = attribute(attributes, name);
  if (!given) return std::nullopt;
  const Value value = scalar_of(*given);
  const auto number = finite(value);
  if (!number || (*number == 0 && !may_be_zero))
    throw unusable(value, may_be_zero ? "a finite number" : "a finite number other than 0");
  return number;
}

bool is_integer(Dtype dtype) {
  return Dtype::u8 <= dtype && dtype <= Dtype::i64;
}
bool is_float(Dtype dtype) {
  return dtype <= Dtype::f64;
}

// The integer type of the same size with the other sign: they are neighbours, the unsigned one first.
Dtype with_sign(Dtype dtype, bool is_unsigned) {
  const int index = static_cast<int>(dtype) - static_cast<int>(Dtype::u8);
  return static_cast<Dtype>(static_cast<int>(Dtype::u8) + index / 2 * 2 + (is_unsigned ? 0 : 1));
}

std::optional<bool> parse_unsigned(const Value& attributes, Dtype stored) {
  const auto value = attribute(attributes, "_Unsigned");
  if (!value || !is_integer(stored)) return std::nullopt;
  const std::string_view word = value->is(Kind::string) ? value->text() : std::string_view();
  if (word != "true" && word != "false") throw unusable(*value, "\"true\" or \"false\"");
  return word == "true";
}

// The f64 that eight bytes in base64 are, little-endian.
std::optional<double> from_base64(std::string_view word) {
  if (word.size() != 12 || word.back() != '=') return std::nullopt;
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<std::uint8_t, 9> bytes{};
  for (std::size_t i = 0; i < 12; ++i) {
    const std::size_t digit = i == 11 ? 0 : kDigits.find(word[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    for (std::size_t bit = 0; bit < 6; ++bit)
      if ((digit >> (5 - bit) & 1) != 0)
        bytes[(6 * i + bit) / 8] |= static_cast<std::uint8_t>(0x80 >> (6 * i + bit) % 8);
  }
  if (bytes[8] != 0) return std::nullopt;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 8; ++i) bits |= std::uint64_t{bytes[i]} << (8 * i);
  return std::bit_cast<double>(bits);
}

// As JSON writes it, to the last digit.
std::string number_text(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "\"NaN\"" : value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  std::array<char, 1200> characters;
  const auto end = std::to_chars(characters.data(), characters.data() + characters.size(), value,
                                 std::chars_format::scientific, 1100);
  return std::string(characters.data(), end.ptr);
}

// Bytes of `value` as an element of `dtype`; empty where the type does not hold it.
std::optional<FillBytes> element_of(const Value& value, Dtype dtype) {
  try {
    return parse_fill_value(value, dtype, 3);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void add_missing(const Value& value, std::initializer_list<Dtype> types, int zarr_format, CfAttributes& cf) {
  const std::string_view word = value.is(Kind::string) ? value.text() : std::string_view();
  const bool is_special = word == "NaN" || word == "Infinity" || word == "-Infinity";
  std::optional<FillBytes> found;
  if (value.is(Kind::number) || is_special) {
    for (const Dtype type : types)
      if (!found) found = element_of(value, type);
  } else if (const auto number = zarr_format == 3 && is_float(*types.begin()) ? from_base64(word) : std::nullopt) {
    found = element_of(json::Document::parse(number_text(*number), json::Form::attribute).root(), *types.begin());
  } else {
    throw unusable(value, "a number, a list of numbers, NaN, Infinity or -Infinity");
  }
  if (!found || std::find(cf.missing.begin(), cf.missing.end(), *found) != cf.missing.end()) return;
  if (cf.missing.size() == kMissingValues)
    throw value.error(Status::decode, formatted("more than {} missing values", kMissingValues), "cf");
  cf.missing.push_back(*found);
}

void add_missing_of(const Value& attributes, std::string_view name, std::initializer_list<Dtype> types, int zarr_format,
                    CfAttributes& cf) {
  const auto value = attribute(attributes, name);
  if (!value) return;
  if (!value->is(Kind::array)) return add_missing(*value, types, zarr_format, cf);
  for (const Value item : *value) add_missing(item, types, zarr_format, cf);
}

}  // namespace

std::optional<Value> attribute(const Value& attributes, std::string_view name) {
  std::optional<Value> found;
  if (attributes.is(Kind::object))
    for (const Value member : attributes)
      if (member.name() == name) found = member;
  return found;
}

CfAttributes parse_cf(const Value& attributes, Dtype stored, int zarr_format, const std::optional<FillBytes>& fill) {
  CfAttributes cf;
  cf.scale_factor = parse_factor(attributes, "scale_factor", /*may_be_zero=*/false);
  cf.add_offset = parse_factor(attributes, "add_offset", /*may_be_zero=*/true);
  cf.is_unsigned = parse_unsigned(attributes, stored);
  cf.missing_type = cf.is_unsigned ? with_sign(stored, *cf.is_unsigned) : stored;
  if (!is_integer(stored) && !is_float(stored)) return cf;
  const Dtype as_read = cf.missing_type;
  if (fill)
    cf.missing.push_back(*fill);
  else if (cf.is_unsigned)  // `_FillValue` is written as the signed type, and reinterpreted
    add_missing_of(attributes, "_FillValue", {with_sign(stored, false), with_sign(stored, true)}, zarr_format, cf);
  else
    add_missing_of(attributes, "_FillValue", {stored}, zarr_format, cf);
  add_missing_of(attributes, "missing_value", {as_read}, zarr_format, cf);
  return cf;
}

std::string packing_text(const Value& attributes) {
  std::string all;
  for (const std::string_view name : {"scale_factor", "add_offset"})
    if (const auto given = attribute(attributes, name)) {
      const Value value = scalar_of(*given);
      all += formatted("{}{}", all.empty() ? "" : " and ", name);
      if (value.is(Kind::number)) all += formatted(" {}", value.text().substr(0, 32));
    }
  return all;
}

}  // namespace damacy
