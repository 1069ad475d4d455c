// Arithmetic on numbers that came from a file: empty instead of wrapping around.
#pragma once

#include <concepts>
#include <optional>

namespace damacy {

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) noexcept {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) noexcept {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Rounds up; b > 0, a >= 0.
template <std::integral T>
[[nodiscard]] constexpr T ceil_div(T a, T b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T value, T multiple) noexcept {
  return ceil_div(value, multiple) * multiple;
}

}  // namespace damacy
