// Exact conversion of JSON numbers: integers with a point or an exponent, and floats rounded once. Knows decimals and
// IEEE formats; does not know what a number is for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace damacy {

// 0.d1d2d3… × 10^exponent; no zero at either end of `digits`, which is empty for zero.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;  // saturated far beyond any float's

  [[nodiscard]] bool is_zero() const noexcept { return digits.empty(); }
};

// `number` obeys RFC 8259's grammar.
[[nodiscard]] Decimal parse_decimal(std::string_view number);

// -1, 0 or 1, signs left aside.
[[nodiscard]] int compare_magnitudes(const Decimal& a, const Decimal& b) noexcept;

// A value without fraction whose magnitude fits; empty otherwise.
[[nodiscard]] std::optional<std::uint64_t> integral_magnitude(const Decimal& number) noexcept;

enum class FloatFormat { f16, bf16, f32, f64 };

// The bits of `number` rounded to nearest, ties to even, once. Empty: it would become infinite.
[[nodiscard]] std::optional<std::uint64_t> float_bits(std::string_view number, FloatFormat format);

}  // namespace damacy
