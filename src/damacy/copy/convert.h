// One element to another type, for every pair of batch dtypes: to a float the nearest, ties to even, and infinity
// beyond its range; to an integer cut off towards zero, then saturated, NaN as 0. One source for host and device, free
// of branches so that loops over it become vectors. Knows values; not where they lie, nor their byte order.
//
// Each conversion rounds once, from the exact source. Where a detour is cheaper it goes through a type that holds the
// source exactly, or through a value rounded to odd: cut off, and its last bit set if anything was lost. Rounding that
// again, to a type at least two bits shorter, gives what rounding the source would have given.
#pragma once

#include <cstdint>
#include <type_traits>

#include "damacy/core/dtype.h"
#include "damacy/core/host_device_macro.h"

// Inlined always: a caller compiled for wider vectors than this file must not be given a plain copy to call.
#define DAMACY_ELEMENT DAMACY_HOST_DEVICE [[gnu::always_inline]] inline

namespace damacy {

struct F16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t byte;  // as stored: anything but 0 is true
};

template <Dtype kType>
struct ElementOf;
// clang-format off
template <> struct ElementOf<Dtype::f32> { using type = float; };
template <> struct ElementOf<Dtype::bf16> { using type = Bf16; };
template <> struct ElementOf<Dtype::f16> { using type = F16; };
template <> struct ElementOf<Dtype::f64> { using type = double; };
template <> struct ElementOf<Dtype::u8> { using type = std::uint8_t; };
template <> struct ElementOf<Dtype::i8> { using type = std::int8_t; };
template <> struct ElementOf<Dtype::u16> { using type = std::uint16_t; };
template <> struct ElementOf<Dtype::i16> { using type = std::int16_t; };
template <> struct ElementOf<Dtype::u32> { using type = std::uint32_t; };
template <> struct ElementOf<Dtype::i32> { using type = std::int32_t; };
template <> struct ElementOf<Dtype::u64> { using type = std::uint64_t; };
template <> struct ElementOf<Dtype::i64> { using type = std::int64_t; };
template <> struct ElementOf<Dtype::boolean> { using type = Bool; };
// clang-format on
template <Dtype kType>
using Element = typename ElementOf<kType>::type;

// The unsigned integer of as many bytes.
template <std::size_t kBytes>
using UnsignedOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t, std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

// std::bit_cast, which device code cannot call.
template <class To, class From>
DAMACY_ELEMENT To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

DAMACY_ELEMENT std::uint8_t byte_swapped(std::uint8_t v) {
  return v;
}
DAMACY_ELEMENT std::uint16_t byte_swapped(std::uint16_t v) {
  return static_cast<std::uint16_t>(v << 8 | v >> 8);
}
DAMACY_ELEMENT std::uint32_t byte_swapped(std::uint32_t v) {
  return v << 24 | (v & 0xff00u) << 8 | (v >> 8 & 0xff00u) | v >> 24;
}
DAMACY_ELEMENT std::uint64_t byte_swapped(std::uint64_t v) {
  return static_cast<std::uint64_t>(byte_swapped(static_cast<std::uint32_t>(v))) << 32 |
         byte_swapped(static_cast<std::uint32_t>(v >> 32));
}

namespace convert_detail {

template <class T>
inline constexpr int kValueBits = static_cast<int>(sizeof(T)) * 8 - (std::is_signed_v<T> ? 1 : 0);
template <class T>
inline constexpr T kMax = static_cast<T>(static_cast<UnsignedOf<sizeof(T)>>(-1) >> (std::is_signed_v<T> ? 1 : 0));
template <class T>
inline constexpr T kLowest = static_cast<T>(std::is_signed_v<T> ? -kMax<T> - 1 : 0);

// Without a branch or a comparison: where one side of `?:` takes arithmetic that may set a floating-point flag,
// compilers keep the branch, and the loop around it scalar.
struct Chosen {
  std::uint32_t mask;  // all ones or zero
  DAMACY_ELEMENT std::uint32_t operator()(std::uint32_t yes, std::uint32_t no) const {
    return no ^ ((yes ^ no) & mask);
  }
};
// Both below 2^31.
DAMACY_ELEMENT Chosen if_less(std::uint32_t a, std::uint32_t b) {
  return {static_cast<std::uint32_t>(static_cast<std::int32_t>(a - b) >> 31)};
}

DAMACY_ELEMENT std::uint32_t sign_of(float v) {
  return bits_as<std::uint32_t>(v) & 0x80000000u;
}
DAMACY_ELEMENT std::uint32_t sign_of(double v) {
  return static_cast<std::uint32_t>(bits_as<std::uint64_t>(v) >> 32) & 0x80000000u;
}

template <class To, class From>
DAMACY_ELEMENT To saturated(From v) {
  if constexpr (std::is_signed_v<From> && kValueBits<To> < kValueBits<From>)
    v = v < static_cast<From>(kLowest<To>) ? static_cast<From>(kLowest<To>) : v;
  else if constexpr (std::is_signed_v<From> && !std::is_signed_v<To>)
    v = v < 0 ? static_cast<From>(0) : v;
  if constexpr (kValueBits<To> < kValueBits<From>)
    v = v > static_cast<From>(kMax<To>) ? static_cast<From>(kMax<To>) : v;
  return static_cast<To>(v);
}

// Toward zero, then to the ends of the range; NaN is 0. `Float` is float or double.
template <class To, class Float>
DAMACY_ELEMENT To truncated(Float v) {
  constexpr int kMantissaBits = sizeof(Float) == 4 ? 24 : 53;
  constexpr Float kLow = static_cast<Float>(kLowest<To>);
  constexpr Float kAbove =
      static_cast<Float>(std::uint64_t{1} << (kValueBits<To> - 1)) * 2;  // the first that is too big
  constexpr bool kExact = kValueBits<To> <= kMantissaBits;               // whether `Float` holds the largest To
  constexpr Float kHigh =
      kAbove - static_cast<Float>(std::uint64_t{1} << (kExact ? 0 : kValueBits<To> - kMantissaBits));
  // Cast by way of i32 where that holds all of To: processors do that best.
  using Through = std::conditional_t<(sizeof(To) < 4), std::int32_t, To>;
  Float inside = v > kLow ? v : kLow;
  inside = inside < kHigh ? inside : kHigh;
  To result = static_cast<To>(static_cast<Through>(inside));
  if constexpr (!kExact) result = v >= kAbove ? kMax<To> : result;
  if constexpr (std::is_signed_v<To>) result = v == v ? result : To{0};
  return result;
}

// A NaN keeps its sign and nothing else.
inline constexpr std::uint32_t kNan32 = 0x7fc00000u;
inline constexpr std::uint64_t kNan64 = 0x7ff8000000000000u;

DAMACY_ELEMENT double to_f64(float v) {
  const std::uint64_t wide = bits_as<std::uint64_t>(static_cast<double>(v));
  const bool is_nan = (wide & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
  return bits_as<double>(is_nan ? static_cast<std::uint64_t>(sign_of(v)) << 32 | kNan64 : wide);
}

DAMACY_ELEMENT float to_f32(double v) {
  const std::uint32_t narrow = bits_as<std::uint32_t>(static_cast<float>(v));
  return bits_as<float>(if_less(0x7f800000u, narrow & 0x7fffffffu)(sign_of(v) | kNan32, narrow));
}

DAMACY_ELEMENT float to_f32(F16 v) {
  const std::uint32_t magnitude = v.bits & 0x7fffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(v.bits & 0x8000u) << 16;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);  // another bias of the exponent
  const float unit = 0x1p-24f;                                    // of the subnormals
  const std::uint32_t subnormal =
      bits_as<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * unit);
  const std::uint32_t finite = if_less(magnitude, 0x400u)(subnormal, normal);
  const std::uint32_t special = if_less(0x7c00u, magnitude)(kNan32, 0x7f800000u);
  return bits_as<float>(sign | if_less(magnitude, 0x7c00u)(finite, special));
}

DAMACY_ELEMENT float to_f32(Bf16 v) {
  const std::uint32_t bits = static_cast<std::uint32_t>(v.bits) << 16;
  return bits_as<float>(if_less(0x7f800000u, bits & 0x7fffffffu)((bits & 0x80000000u) | kNan32, bits));
}

DAMACY_ELEMENT F16 to_f16(float v) {
  const std::uint32_t bits = bits_as<std::uint32_t>(v);
  const std::uint32_t sign = bits & 0x80000000u;
  const std::uint32_t magnitude = bits ^ sign;
  // Adds half of what is cut off, less one where the last bit kept is even.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // In a sum with 0.5 the last bit of a float is worth an f16 subnormal's: the addition rounds as wanted.
  const std::uint32_t subnormal = bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t finite = if_less(magnitude, 0x38800000u)(subnormal, normal);
  const std::uint32_t special = if_less(0x7f800000u, magnitude)(0x7e00u, 0x7c00u);
  return {static_cast<std::uint16_t>(sign >> 16 | if_less(magnitude, 0x477ff000u)(finite, special))};
}

// Of a number, or of infinity.
DAMACY_ELEMENT Bf16 number_to_bf16(float v) {
  const std::uint32_t bits = bits_as<std::uint32_t>(v);
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

DAMACY_ELEMENT Bf16 to_bf16(float v) {
  const std::uint32_t bits = bits_as<std::uint32_t>(v);
  const std::uint32_t nan = (bits >> 16 & 0x8000u) | (kNan32 >> 16);
  return {static_cast<std::uint16_t>(if_less(0x7f800000u, bits & 0x7fffffffu)(nan, number_to_bf16(v).bits))};
}

// Of a whole number up to 65536: nothing is subnormal, and what is too big rounds to infinity by itself.
DAMACY_ELEMENT F16 whole_to_f16(float v) {
  const std::uint32_t bits = bits_as<std::uint32_t>(v);
  const std::uint32_t sign = bits & 0x80000000u;
  constexpr std::uint32_t kBias = 112u << 23;  // an f16's zero
  const std::uint32_t magnitude = (bits ^ sign) > kBias ? bits ^ sign : kBias;
  return {static_cast<std::uint16_t>(sign >> 16 | (magnitude - kBias + 0xfffu + (magnitude >> 13 & 1u)) >> 13)};
}

// Rounded to odd; NaN is plain.
DAMACY_ELEMENT float odd_f32(double v) {
  const std::uint64_t magnitude = bits_as<std::uint64_t>(v) & 0x7fffffffffffffffu;
  const std::uint32_t nearest = bits_as<std::uint32_t>(static_cast<float>(bits_as<double>(magnitude)));
  const std::uint64_t back = bits_as<std::uint64_t>(static_cast<double>(bits_as<float>(nearest)));
  const std::uint64_t difference = magnitude - back;
  const std::uint32_t away = static_cast<std::uint32_t>(difference >> 63);
  const std::uint32_t lost = static_cast<std::uint32_t>((difference | (0 - difference)) >> 63);
  const std::uint32_t odd = (nearest - away) | lost;
  return bits_as<float>(sign_of(v) | if_less(0x7f800000u, nearest)(kNan32, odd));
}

// The magnitude of an integer in a form that double holds and bf16 rounds alike: bits far below bf16's last become one.
DAMACY_ELEMENT std::uint64_t folded(std::uint64_t magnitude) {
  const std::uint64_t lost = magnitude & 0xfffffu;
  return magnitude >> 32 != 0 ? magnitude - lost + (lost != 0 ? 0x80000u : 0u) : magnitude;
}
// The same for float.
DAMACY_ELEMENT std::uint32_t folded(std::uint32_t magnitude) {
  const std::uint32_t lost = magnitude & 0xffffu;
  return magnitude >> 24 != 0 ? magnitude - lost + (lost != 0 ? 0x8000u : 0u) : magnitude;
}

template <class Int>
DAMACY_ELEMENT F16 int_to_f16(Int v) {
  if constexpr (sizeof(Int) <= 2) {
    return whole_to_f16(static_cast<float>(v));
  } else {
    constexpr Int kBeyond = 65536;
    Int inside = v > kBeyond ? kBeyond : v;
    if constexpr (std::is_signed_v<Int>) inside = inside < -kBeyond ? -kBeyond : inside;
    return whole_to_f16(static_cast<float>(static_cast<std::int32_t>(inside)));
  }
}

template <class Int>
DAMACY_ELEMENT Bf16 int_to_bf16(Int v) {
  if constexpr (sizeof(Int) <= 2) {
    return number_to_bf16(static_cast<float>(v));
  } else {
    using Magnitude = std::make_unsigned_t<Int>;
    bool negative = false;
    if constexpr (std::is_signed_v<Int>) negative = v < 0;
    const Magnitude raw = static_cast<Magnitude>(v);
    const Magnitude magnitude = folded(negative ? Magnitude{0} - raw : raw);
    Bf16 result;
    if constexpr (sizeof(Int) == 4)
      result = number_to_bf16(static_cast<float>(magnitude));
    else
      result = number_to_bf16(odd_f32(static_cast<double>(magnitude)));
    return {static_cast<std::uint16_t>(result.bits | (negative ? 0x8000u : 0u))};
  }
}

template <class T>
DAMACY_ELEMENT bool is_nonzero(T v) {
  using Bits = UnsignedOf<sizeof(T)>;
  constexpr int kSignBits = std::is_integral_v<T> || std::is_same_v<T, Bool> ? 0 : 1;  // -0.0 is zero
  return static_cast<Bits>(bits_as<Bits>(v) << kSignBits) != 0;
}

template <class To, class Float>
DAMACY_ELEMENT To from_float(Float v) {
  if constexpr (std::is_integral_v<To>)
    return truncated<To>(v);
  else if constexpr (std::is_same_v<To, Float>)
    return v;
  else if constexpr (std::is_same_v<To, double>)
    return to_f64(v);
  else if constexpr (std::is_same_v<To, float>)
    return to_f32(v);
  else if constexpr (std::is_same_v<Float, double>)
    return from_float<To>(odd_f32(v));
  else if constexpr (std::is_same_v<To, F16>)
    return to_f16(v);
  else
    return to_bf16(v);
}

template <class To, class Int>
DAMACY_ELEMENT To from_int(Int v) {
  if constexpr (std::is_integral_v<To>)
    return saturated<To>(v);
  else if constexpr (std::is_same_v<To, F16>)
    return int_to_f16(v);
  else if constexpr (std::is_same_v<To, Bf16>)
    return int_to_bf16(v);
  else
    return static_cast<To>(v);
}

template <class To>
DAMACY_ELEMENT To from_bool(Bool v) {
  if constexpr (std::is_integral_v<To>)
    return static_cast<To>(v.byte != 0);
  else
    return from_int<To>(static_cast<std::uint8_t>((0u - v.byte) >> 31));
}

}  // namespace convert_detail

// `To` and `From` are Element<...> types.
template <class To, class From>
DAMACY_ELEMENT To convert(From v) {
  namespace d = convert_detail;
  if constexpr (std::is_same_v<To, Bool>)
    return {static_cast<std::uint8_t>(d::is_nonzero(v))};
  else if constexpr (std::is_same_v<To, From>)
    return v;
  else if constexpr (std::is_same_v<From, Bool>)
    return d::from_bool<To>(v);
  else if constexpr (std::is_same_v<From, F16> || std::is_same_v<From, Bf16>)
    return d::from_float<To>(d::to_f32(v));
  else if constexpr (std::is_integral_v<From>)
    return d::from_int<To>(v);
  else
    return d::from_float<To>(v);
}

}  // namespace damacy
