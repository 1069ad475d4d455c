#include "damacy/zarr/detail/fill_value.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "damacy/core/formatted.h"
#include "damacy/core/json_stream.h"
#include "damacy/zarr/detail/number_text.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

constexpr std::uint64_t kNotATime = std::uint64_t{1} << 63;

struct FloatKind {
  FloatFormat format;
  std::size_t bytes;
  std::uint64_t infinity;
  std::uint64_t quiet_nan;
};

FloatKind float_kind(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return {FloatFormat::f16, 2, 0x7c00, 0x7e00};
    case Dtype::bf16:
      return {FloatFormat::bf16, 2, 0x7f80, 0x7fc0};
    case Dtype::f32:
    case Dtype::complex64:
      return {FloatFormat::f32, 4, 0x7f800000, 0x7fc00000};
    default:
      return {FloatFormat::f64, 8, 0x7ff0000000000000, 0x7ff8000000000000};
  }
}

Error refuse(const Value& fill, Dtype dtype, std::string_view why) {
  return fill.error(Status::decode, formatted("fill value {} of type {}: {}", shown(fill), name_of(dtype), why),
                    "fill-value");
}

bool is_number_text(std::string_view characters) {
  return !characters.empty() && number_length(characters) == characters.size();
}

// What n5-zarr writes in place of an integer.
bool is_integer_text(std::string_view characters) {
  return is_number_text(characters) && characters.find_first_of(".eE") == characters.npos;
}

// The low `bytes` bytes of `bits` as the machine orders them.
void store(std::byte* to, std::uint64_t bits, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::size_t place = std::endian::native == std::endian::little ? i : bytes - 1 - i;
    to[place] = static_cast<std::byte>(bits >> (8 * i));
  }
}

std::optional<std::uint64_t> hex_bits(std::string_view digits, std::size_t bytes) {
  if (digits.size() != 2 * bytes) return std::nullopt;
  std::uint64_t bits = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  return bits;
}

std::uint64_t parse_float(const Value& fill, Dtype dtype) {
  const FloatKind kind = float_kind(dtype);
  const auto characters = fill.text();
  if (!fill.is(Kind::number) && !fill.is(Kind::string)) throw refuse(fill, dtype, "not a float");
  if (fill.is(Kind::number) && characters == "-0") return 0;  // an integer to zarr-python, which has no sign
  if (is_number_text(characters)) {
    const auto bits = float_bits(characters, kind.format);
    if (!bits) throw refuse(fill, dtype, "beyond the type's range");
    return *bits;
  }
  if (characters == "NaN") return kind.quiet_nan;
  if (characters == "Infinity") return kind.infinity;
  if (characters == "-Infinity") return kind.infinity | std::uint64_t{1} << (8 * kind.bytes - 1);
  if (characters.starts_with("0x"))
    if (const auto bits = hex_bits(characters.substr(2), kind.bytes)) return *bits;
  throw refuse(fill, dtype,
               formatted("expected a number, NaN, Infinity, -Infinity or 0x and {} hex digits", 2 * kind.bytes));
}

// Two's complement.
std::uint64_t parse_integer(const Value& fill, Dtype dtype, bool is_signed) {
  const bool is_number = fill.is_finite_number() || (fill.is(Kind::string) && is_integer_text(fill.text()));
  const Decimal number = is_number ? parse_decimal(fill.text()) : Decimal();
  const auto magnitude = is_number ? integral_magnitude(number) : std::nullopt;
  const std::uint64_t bits = 8 * size_of(dtype);
  const std::uint64_t highest = ~std::uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
  const std::uint64_t lowest = is_signed ? highest + 1 : 0;  // magnitude of the lowest value
  if (!magnitude || *magnitude > (number.negative ? lowest : highest))
    throw refuse(fill, dtype, "not an integer in the type's range");
  return number.negative ? ~*magnitude + 1 : *magnitude;
}

std::uint64_t parse_bool(const Value& fill, int zarr_format) {
  if (fill.is(Kind::boolean)) return fill.truth() ? 1 : 0;
  const bool is_digit = fill.is(Kind::number) && (fill.text() == "0" || fill.text() == "1");
  if (zarr_format != 2 || !is_digit) throw refuse(fill, Dtype::boolean, "not a boolean");
  return fill.text() == "1" ? 1 : 0;
}

std::uint64_t parse_time(const Value& fill, Dtype dtype) {
  if (fill.is(Kind::string) && fill.text() == "NaT") return kNotATime;
  if (!fill.is(Kind::number)) throw refuse(fill, dtype, "expected an integer or \"NaT\"");
  return parse_integer(fill, dtype, /*is_signed=*/true);
}

void parse_complex(const Value& fill, Dtype dtype, FillBytes& bytes) {
  if (!fill.is(Kind::array) || fill.size() != 2) throw refuse(fill, dtype, "expected a list of two floats");
  const std::size_t half = scalar_size_of(dtype);
  std::size_t at = 0;
  for (const Value part : fill) {
    store(bytes.data() + at, parse_float(part, dtype), half);
    at += half;
  }
}

std::uint64_t parse_scalar(const Value& fill, Dtype dtype, int zarr_format) {
  switch (dtype) {
    case Dtype::boolean:
      return parse_bool(fill, zarr_format);
    case Dtype::u8:
    case Dtype::u16:
    case Dtype::u32:
    case Dtype::u64:
      return parse_integer(fill, dtype, /*is_signed=*/false);
    case Dtype::i8:
    case Dtype::i16:
    case Dtype::i32:
    case Dtype::i64:
      return parse_integer(fill, dtype, /*is_signed=*/true);
    case Dtype::datetime64:
    case Dtype::timedelta64:
      return parse_time(fill, dtype);
    default:
      return parse_float(fill, dtype);
  }
}

}  // namespace

FillBytes parse_fill_value(const Value& fill, Dtype dtype, int zarr_format) {
  FillBytes bytes{};
  const bool is_time = dtype == Dtype::datetime64 || dtype == Dtype::timedelta64;
  if (fill.is(Kind::null)) {
    if (zarr_format != 2) throw refuse(fill, dtype, "null is legal in v2 only");
    if (is_time) store(bytes.data(), kNotATime, 8);
  } else if (dtype == Dtype::complex64 || dtype == Dtype::complex128) {
    parse_complex(fill, dtype, bytes);
  } else {
    store(bytes.data(), parse_scalar(fill, dtype, zarr_format), size_of(dtype));
  }
  return bytes;
}

}  // namespace damacy
