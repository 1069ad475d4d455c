// For tests: what may be done to elements, drawn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "damacy/copy/finish.h"
#include "support/draw.h"

namespace damacy::testing {

// Bits of a value of that type; often a special one.
inline std::uint64_t random_bits(Draw& draw, Dtype type) {
  const auto bytes = size_of(type);
  const std::uint64_t mask = bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * bytes) - 1;
  if (type == Dtype::boolean) return static_cast<std::uint64_t>(draw.from(0, 1));
  if (draw.one_in(3)) return static_cast<std::uint64_t>(draw.from(-3, 3)) & mask;
  const auto half = [&] { return static_cast<std::uint64_t>(draw.from(0, 0xffffffff)); };
  const std::uint64_t low = half();
  return (half() << 32 | low) & mask;
}

// Exact.
inline long double value_of(std::uint64_t bits, Dtype type) {
  const auto as = [&]<class T>(T) -> long double {
    const T value = bits_as<T>(static_cast<UnsignedOf<sizeof(T)>>(bits));
    if constexpr (std::is_integral_v<T>)
      return value;
    else
      return convert<double>(value);
  };
  switch (type) {
    case Dtype::f32:
      return as(float{});
    case Dtype::bf16:
      return as(Bf16{});
    case Dtype::f16:
      return as(F16{});
    case Dtype::f64:
      return as(double{});
    case Dtype::i8:
      return as(std::int8_t{});
    case Dtype::i16:
      return as(std::int16_t{});
    case Dtype::i32:
      return as(std::int32_t{});
    case Dtype::i64:
      return as(std::int64_t{});
    default:
      return as(std::uint64_t{});
  }
}

// For a copy from `from` to `to`, both of batches.
inline Finish random_finish(Draw& draw, Dtype from, Dtype to) {
  Finish finish;
  if (draw.one_in(12)) {
    finish.is_constant = true;
    finish.replacement = random_bits(draw, to);
    return finish;
  }
  if (!draw.one_in(4)) {
    constexpr double kScales[] = {1, -1, 0.5, 1.0 / 3, 1e-3, 1e-40, 3e38, 1.0000001, 255, 1 / 4095.0};
    constexpr double kOffsets[] = {0, -0.5, 0.5, 1.0 / 3, -1e10, 1e-42, 127.5, -1.5};
    finish.is_scaled = true;
    finish.is_wide = !is_exact_in_f32(from) || !is_narrow(to) || draw.one_in(3);
    finish.scale = kScales[draw.from(0, 9)];
    finish.offset = kOffsets[draw.from(0, 7)];
    if (!finish.is_wide) {
      finish.scale = static_cast<float>(finish.scale);
      finish.offset = static_cast<float>(finish.offset);
    } else if (draw.one_in(2)) {
      finish.is_packed = true;
      finish.unpack_scale = kScales[draw.from(0, 9)];
      finish.unpack_offset = kOffsets[draw.from(0, 7)];
      finish.is_scaled = draw.one_in(2);
    }
  }
  finish.is_rounded = draw.one_in(2);
  std::uint64_t low = random_bits(draw, to), high = random_bits(draw, to);
  if (value_of(low, to) > value_of(high, to)) std::swap(low, high);
  const bool is_number = !std::isnan(value_of(low, to)) && !std::isnan(value_of(high, to));
  finish.has_low = is_number && draw.one_in(2);
  finish.has_high = is_number && draw.one_in(2);
  finish.low = low;
  finish.high = high;
  if (draw.one_in(3)) {
    finish.missing_count = static_cast<std::uint32_t>(draw.from(1, 17));
    for (std::uint32_t i = 0; i < finish.missing_count; ++i) finish.missing[i] = random_bits(draw, from);
  }
  finish.is_missing_nan = draw.one_in(4) && is_float(from);
  finish.replacement = random_bits(draw, to);
  return finish;
}

}  // namespace damacy::testing
