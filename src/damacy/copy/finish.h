// What is done to an element besides its conversion: scale and offset, rounding, clipping, replacement of missing
// values. One source for host and device, so that both give the same bits. Knows values; not where they lie.
//
// Without a scale the stored value itself is converted. With one, the value is converted to a working type (f32 where
// that holds every value of the stored type, else f64), multiplied, added to, and then converted. Packed values are
// unpacked before by a scale and an offset of their own. The operations round one after the other and are never fused:
// NumPy gives the same bits.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "damacy/copy/convert.h"

namespace damacy {

// Trivially copyable: kernels read it as it is. Bits of an element are zero-extended.
struct Finish {
  static constexpr std::size_t kMissing = 17;  // 16 values, and the other zero

  double unpack_scale = 1;  // as the working type holds them
  double unpack_offset = 0;
  double scale = 1;
  double offset = 0;
  std::uint64_t low = 0;  // bits of the type of the batch, as all below but the missing values
  std::uint64_t high = 0;
  std::uint64_t replacement = 0;                     // of missing elements, or of all
  std::array<std::uint64_t, kMissing> missing = {};  // bits of the stored type
  std::uint32_t missing_count = 0;
  bool is_missing_nan = false;  // a NaN is a missing value
  bool is_packed = false;       // unpack_scale and unpack_offset apply
  bool is_scaled = false;       // scale and offset apply
  bool is_wide = false;         // the working type is f64
  bool is_rounded = false;      // to the nearest integral value, ties to even; else towards zero
  bool has_low = false;
  bool has_high = false;
  bool is_constant = false;  // every element becomes `replacement`, whatever is stored

  DAMACY_HOST_DEVICE bool computes() const noexcept { return is_packed || is_scaled; }
  bool has_missing() const noexcept { return missing_count > 0 || is_missing_nan; }
};
static_assert(std::is_trivially_copyable_v<Finish>);

// The stored types whose values f32 holds.
[[nodiscard]] DAMACY_HOST_DEVICE constexpr bool is_exact_in_f32(Dtype type) noexcept {
  return type == Dtype::f32 || type == Dtype::bf16 || type == Dtype::f16 || type == Dtype::u8 || type == Dtype::i8 ||
         type == Dtype::u16 || type == Dtype::i16 || type == Dtype::boolean;
}

// The types of a batch that get what f64 computed by way of f32.
[[nodiscard]] DAMACY_HOST_DEVICE constexpr bool is_narrow(Dtype to) noexcept {
  return to != Dtype::f64 && to != Dtype::i32 && to != Dtype::u32 && to != Dtype::i64 && to != Dtype::u64;
}

[[nodiscard]] DAMACY_HOST_DEVICE constexpr bool is_float(Dtype type) noexcept {
  return type == Dtype::f32 || type == Dtype::bf16 || type == Dtype::f16 || type == Dtype::f64;
}

namespace finish_detail {

#ifdef __CUDA_ARCH__
DAMACY_ELEMENT float scaled(float x, float scale, float offset) {
  return __fadd_rn(__fmul_rn(x, scale), offset);
}
DAMACY_ELEMENT double scaled(double x, double scale, double offset) {
  return __dadd_rn(__dmul_rn(x, scale), offset);
}
#else
// The build forbids the compiler to fuse them.
template <class Float>
DAMACY_ELEMENT Float scaled(Float x, Float scale, Float offset) {
  return x * scale + offset;
}
#endif

DAMACY_ELEMENT float plain_nan(float y) {
  return y == y ? y : bits_as<float>(convert_detail::kNan32);
}
DAMACY_ELEMENT double plain_nan(double y) {
  return y == y ? y : bits_as<double>(convert_detail::kNan64);
}

DAMACY_ELEMENT float rounded(float y) {
  return rintf(y);
}
DAMACY_ELEMENT double rounded(double y) {
  return rint(y);
}

// What clipping compares.
template <class T>
DAMACY_ELEMENT auto comparable(T v) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, Bf16>)
    return convert<float>(v);
  else if constexpr (std::is_same_v<T, Bool>)
    return v.byte;
  else
    return v;
}

// As numpy.clip: at a bound the bound is the result, also if its zero has another sign. NaN stays.
template <class T>
DAMACY_ELEMENT T clipped(T v, bool has_low, T low, bool has_high, T high) {
  const auto value = comparable(v);
  const bool below = has_low && value <= comparable(low);
  const T inside = below ? low : v;
  const bool above = has_high && comparable(inside) >= comparable(high);
  return above ? high : inside;
}

// Whether the bits of a stored element are a NaN's.
DAMACY_ELEMENT bool is_nan(std::uint64_t bits, Dtype type) {
  switch (type) {
    case Dtype::f32:
      return (bits & 0x7fffffffu) > 0x7f800000u;
    case Dtype::bf16:
      return (bits & 0x7fffu) > 0x7f80u;
    case Dtype::f16:
      return (bits & 0x7fffu) > 0x7c00u;
    case Dtype::f64:
      return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
    default:
      return false;
  }
}

}  // namespace finish_detail

DAMACY_ELEMENT bool is_missing(const Finish& finish, std::uint64_t bits, Dtype from) {
  for (std::uint32_t i = 0; i < finish.missing_count; ++i)
    if (finish.missing[i] == bits) return true;
  return finish.is_missing_nan && finish_detail::is_nan(bits, from);
}

// The operations, in the working type.
template <class Float>
DAMACY_ELEMENT Float scaled(const Finish& finish, Float x) {
  if (finish.is_packed)
    x = finish_detail::scaled(x, static_cast<Float>(finish.unpack_scale), static_cast<Float>(finish.unpack_offset));
  if (finish.is_scaled)
    x = finish_detail::scaled(x, static_cast<Float>(finish.scale), static_cast<Float>(finish.offset));
  return finish_detail::plain_nan(x);
}

}  // namespace damacy
