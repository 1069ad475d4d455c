#include "damacy/zarr/detail/number_text.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <string>

#include "damacy/core/formatted.h"

namespace damacy {
namespace {

constexpr std::uint64_t kSign = 0x8000;

// The value of 16 bits, by the definition of the format; infinity's bits give the value that would come after the
// largest.
double value_of(std::uint64_t bits, int mantissa_bits, int min_exponent) {
  const auto exponent = static_cast<int>(bits >> mantissa_bits);
  const auto mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1));
  const double leading = exponent == 0 ? 0 : std::ldexp(1.0, mantissa_bits);
  return std::ldexp(leading + mantissa, std::max(exponent, 1) - 1 + min_exponent - mantissa_bits);
}

// All digits of a double, no exponent in them.
std::string exact_text(double value) {
  char digits[1200];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, 200);
  return {digits, end.ptr};
}

struct Format {
  FloatFormat format;
  int mantissa_bits;
  int min_exponent;
  std::uint64_t infinity;
};
constexpr Format kHalf{FloatFormat::f16, 10, -14, 0x7c00};
constexpr Format kBrain{FloatFormat::bf16, 7, -126, 0x7f80};

// `text` ± the smallest change to its last digit: replaces the last digits of an exact, terminating decimal.
std::string a_little_more(const std::string& text) {
  return text + "0000000000000000000000000000001";
}
std::string a_little_less(std::string text) {
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text += "0";
  // Borrow from the last digit that is not zero.
  for (std::size_t i = text.size(); i-- > 0;) {
    if (text[i] == '.') continue;
    if (text[i] == '0') {
      text[i] = '9';
      continue;
    }
    --text[i];
    break;
  }
  return text + "99999999999999999999999999";
}

void check_every_half_way_point(const Format& f) {
  for (std::uint64_t low = 0; low < f.infinity; ++low) {
    const double below = value_of(low, f.mantissa_bits, f.min_exponent);
    const double above = value_of(low + 1, f.mantissa_bits, f.min_exponent);
    const std::string half_way = exact_text((below + above) / 2);
    const std::uint64_t even = low % 2 == 0 ? low : low + 1;
    const auto or_nothing = [&](std::uint64_t bits) {
      return bits == f.infinity ? std::nullopt : std::optional<std::uint64_t>(bits);
    };
    ASSERT_EQ(float_bits(half_way, f.format), or_nothing(even)) << half_way;
    ASSERT_EQ(float_bits(a_little_more(half_way), f.format), or_nothing(low + 1)) << half_way;
    ASSERT_EQ(float_bits(a_little_less(half_way), f.format), low) << half_way;
    ASSERT_EQ(float_bits(formatted("-{}", exact_text(below)), f.format), low | kSign) << below;
  }
}

TEST(FloatBits, f16_is_rounded_once_at_every_half_way_point) {
  check_every_half_way_point(kHalf);
}
TEST(FloatBits, bf16_is_rounded_once_at_every_half_way_point) {
  check_every_half_way_point(kBrain);
}

TEST(FloatBits, f16_does_not_round_by_way_of_f32_or_f64) {
  // Just above the middle of 1 and the next half, nearer than a double can say.
  EXPECT_EQ(float_bits("1.00048828125000000000000000000001", FloatFormat::f16), 0x3c01);
  EXPECT_EQ(float_bits("1.00048828125", FloatFormat::f16), 0x3c00);
  EXPECT_EQ(float_bits("1.00048828124999999999999999999999", FloatFormat::f16), 0x3c00);
  EXPECT_EQ(float_bits("100048828125000000000000000000001e-32", FloatFormat::f16), 0x3c01);
}

TEST(FloatBits, a_finite_text_never_becomes_infinite) {
  EXPECT_EQ(float_bits("65504", FloatFormat::f16), 0x7bff);
  EXPECT_EQ(float_bits("65519.999999999999999999999999999", FloatFormat::f16), 0x7bff);
  EXPECT_EQ(float_bits("65520", FloatFormat::f16), std::nullopt);
  EXPECT_EQ(float_bits("3.4028235677973367e38", FloatFormat::f32), std::nullopt);
  EXPECT_EQ(float_bits("3.4028235677973366e38", FloatFormat::f32), 0x7f7fffff);
  EXPECT_EQ(float_bits("1.7976931348623157e308", FloatFormat::f64), 0x7fefffffffffffff);
  EXPECT_EQ(float_bits("1.7976931348623159e308", FloatFormat::f64), std::nullopt);
  for (const auto format : {FloatFormat::f16, FloatFormat::bf16, FloatFormat::f32, FloatFormat::f64}) {
    EXPECT_EQ(float_bits("1e400", format), std::nullopt);
    EXPECT_EQ(float_bits("-1e999999999999999999999999", format), std::nullopt);
    EXPECT_EQ(float_bits("0e999999999999999999999999", format), 0u);
    EXPECT_EQ(float_bits("1e-400", format), 0u);
    EXPECT_EQ(float_bits("0.00001e-99999999999999999999999", format), 0u);
  }
  EXPECT_EQ(float_bits("-1e-400", FloatFormat::f16), 0x8000);
  EXPECT_EQ(float_bits("-1e-400", FloatFormat::f32), 0x80000000);
  EXPECT_EQ(float_bits("-0.0", FloatFormat::f64), 0x8000000000000000);
  EXPECT_EQ(float_bits("4.9e-324", FloatFormat::f64), 1u);
  EXPECT_EQ(float_bits("2.5e-324", FloatFormat::f64), 1u);
  EXPECT_EQ(float_bits("2.4e-324", FloatFormat::f64), 0u);
  EXPECT_EQ(float_bits("1e-45", FloatFormat::f32), 1u);
  EXPECT_EQ(float_bits("7e-46", FloatFormat::f32), 0u);
  EXPECT_EQ(float_bits("-7e-46", FloatFormat::f32), 0x80000000);
}

TEST(FloatBits, f32_is_not_rounded_by_way_of_f64) {
  // 1 + 2^-24 plus less than a double's ulp: the nearest double is the half way point, which would round to 1.
  EXPECT_EQ(float_bits("1.00000005960464477539062500000000001", FloatFormat::f32), 0x3f800001);
  EXPECT_EQ(float_bits("1.000000059604644775390625", FloatFormat::f32), 0x3f800000);
}

TEST(IntegralMagnitude, takes_every_way_to_write_an_integer) {
  const auto magnitude = [](std::string_view number) { return integral_magnitude(parse_decimal(number)); };
  EXPECT_EQ(magnitude("0"), 0u);
  EXPECT_EQ(magnitude("-0.000e7"), 0u);
  EXPECT_EQ(magnitude("1e2"), 100u);
  EXPECT_EQ(magnitude("1.50e1"), 15u);
  EXPECT_EQ(magnitude("1200e-2"), 12u);
  EXPECT_EQ(magnitude("18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(magnitude("18446744073709551615.000"), ~std::uint64_t{0});
  EXPECT_EQ(magnitude("18446744073709551616"), std::nullopt);
  EXPECT_EQ(magnitude("184467440737095516150"), std::nullopt);
  EXPECT_EQ(magnitude("1e20"), std::nullopt);
  EXPECT_EQ(magnitude("1e999999999999999999"), std::nullopt);
  EXPECT_EQ(magnitude("1.5"), std::nullopt);
  EXPECT_EQ(magnitude("1e-1"), std::nullopt);
  EXPECT_EQ(magnitude("0.9999999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace damacy
