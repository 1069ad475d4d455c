#include "damacy/zarr/detail/number_text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "damacy/core/checked.h"

namespace damacy {
namespace {

constexpr std::int64_t kFarExponent = 1'000'000'000;

std::int64_t parse_exponent(std::string_view digits) {
  if (digits.starts_with('+')) digits.remove_prefix(1);
  std::int64_t exponent = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (parsed.ec != std::errc{}) exponent = digits.starts_with('-') ? -kFarExponent : kFarExponent;
  return std::clamp(exponent, -kFarExponent, kFarExponent);
}

template <class Float, class Bits>
std::optional<std::uint64_t> native_bits(std::string_view number) {
  Float value = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
  if (parsed.ec == std::errc::result_out_of_range) {  // infinite, or rounds to zero
    if (parse_decimal(number).exponent > 0) return std::nullopt;
    value = number.starts_with('-') ? Float{-0.0} : Float{0.0};
  }
  if (std::isinf(value)) return std::nullopt;
  return std::bit_cast<Bits>(value);
}

// Of a 16-bit float.
struct Narrow {
  int mantissa_bits;
  int min_exponent;  // of the smallest normal number
  int max_exponent;
};

// All 16-bit floats, and the points half way between two of them, are exact as double.
double ulp_at(double magnitude, const Narrow& format) {
  const int exponent = magnitude == 0 ? format.min_exponent : std::max(std::ilogb(magnitude), format.min_exponent);
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

Decimal exact_decimal(double value) {
  char digits[1200];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific, 800);
  return parse_decimal(std::string_view(digits, end.ptr));
}

// `nearest` is the double nearest to `number`. It decides on which side of a half way point `number` lies unless it is
// that point itself: then the decimals decide.
std::optional<std::uint64_t> narrow_bits(std::string_view number, const Narrow& format) {
  const auto wide = native_bits<double, std::uint64_t>(number);
  if (!wide) return std::nullopt;
  const double nearest = std::fabs(std::bit_cast<double>(*wide));
  const double ulp = ulp_at(nearest, format);
  const double steps = std::floor(nearest / ulp);  // exact: ulp is a power of two
  const double half_way = (steps + 0.5) * ulp;
  int above = nearest < half_way ? -1 : nearest > half_way ? 1 : 0;
  if (above == 0) above = compare_magnitudes(parse_decimal(number), exact_decimal(half_way));
  const bool up = above > 0 || (above == 0 && std::fmod(steps, 2.0) == 1.0);
  const double rounded = (steps + (up ? 1 : 0)) * ulp;
  if (rounded >= std::ldexp(1.0, format.max_exponent + 1)) return std::nullopt;
  const std::uint64_t sign = number.starts_with('-') ? 0x8000 : 0;
  if (rounded < std::ldexp(1.0, format.min_exponent))  // subnormal or zero
    return sign | static_cast<std::uint64_t>(std::ldexp(rounded, format.mantissa_bits - format.min_exponent));
  const int exponent = std::ilogb(rounded);
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(rounded, format.mantissa_bits - exponent));
  const auto biased = static_cast<std::uint64_t>(exponent - format.min_exponent);  // one less than stored …
  return sign | ((biased << format.mantissa_bits) + mantissa);                     // … the leading bit adds it
}

}  // namespace

Decimal parse_decimal(std::string_view number) {
  Decimal decimal;
  decimal.negative = number.starts_with('-');
  if (decimal.negative) number.remove_prefix(1);
  if (const auto e = number.find_first_of("eE"); e != number.npos) {
    decimal.exponent = parse_exponent(number.substr(e + 1));
    number = number.substr(0, e);
  }
  const auto point = std::min(number.find('.'), number.size());
  decimal.digits = number.substr(0, point);
  if (point < number.size()) decimal.digits += number.substr(point + 1);
  const auto first = std::min(decimal.digits.find_first_not_of('0'), decimal.digits.size());
  decimal.exponent += static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  decimal.digits.erase(0, first);
  decimal.digits.erase(decimal.digits.find_last_not_of('0') + 1);
  return decimal;
}

int compare_magnitudes(const Decimal& a, const Decimal& b) noexcept {
  if (a.is_zero() || b.is_zero()) return static_cast<int>(b.is_zero()) - static_cast<int>(a.is_zero());
  if (a.exponent != b.exponent) return a.exponent < b.exponent ? -1 : 1;
  const int order = a.digits.compare(b.digits);  // no trailing zeros: a prefix is smaller
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

std::optional<std::uint64_t> integral_magnitude(const Decimal& number) noexcept {
  if (number.is_zero()) return 0;
  const auto digits = static_cast<std::int64_t>(number.digits.size());
  if (number.exponent < digits || number.exponent > 20) return std::nullopt;
  std::uint64_t value = 0;
  for (std::int64_t i = 0; i < number.exponent; ++i) {
    const auto digit = i < digits ? static_cast<std::uint64_t>(number.digits[static_cast<std::size_t>(i)] - '0') : 0;
    const auto shifted = checked_mul<std::uint64_t>(value, 10);
    const auto next = shifted ? checked_add(*shifted, digit) : std::nullopt;
    if (!next) return std::nullopt;
    value = *next;
  }
  return value;
}

std::optional<std::uint64_t> float_bits(std::string_view number, FloatFormat format) {
  switch (format) {
    case FloatFormat::f16:
      return narrow_bits(number, {10, -14, 15});
    case FloatFormat::bf16:
      return narrow_bits(number, {7, -126, 127});
    case FloatFormat::f32:
      return native_bits<float, std::uint32_t>(number);
    case FloatFormat::f64:
      break;
  }
  return native_bits<double, std::uint64_t>(number);
}

}  // namespace damacy
