// Element operations of a copy plan: negation and addition in the element type. One source for host and device, so that
// both give the same bytes; a NaN sum is always the default NaN. Knows values; not their location.
#pragma once

#include <type_traits>

#include "damacy/copy/convert.h"

namespace damacy::copy {

struct Complex64 {
  float real, imag;
};
struct Complex128 {
  double real, imag;
};

DAMACY_ELEMENT float negated(float v) {
  return bits_as<float>(bits_as<std::uint32_t>(v) ^ 0x80000000u);
}
DAMACY_ELEMENT double negated(double v) {
  return bits_as<double>(bits_as<std::uint64_t>(v) ^ 0x8000000000000000u);
}
DAMACY_ELEMENT F16 negated(F16 v) {
  return {static_cast<std::uint16_t>(v.bits ^ 0x8000u)};
}
DAMACY_ELEMENT Bf16 negated(Bf16 v) {
  return {static_cast<std::uint16_t>(v.bits ^ 0x8000u)};
}
DAMACY_ELEMENT Complex64 negated(Complex64 v) {
  return {negated(v.real), negated(v.imag)};
}
DAMACY_ELEMENT Complex128 negated(Complex128 v) {
  return {negated(v.real), negated(v.imag)};
}
template <class Int>
  requires std::is_integral_v<Int>
DAMACY_ELEMENT Int negated(Int v) {
  using Bits = UnsignedOf<sizeof(Int)>;
  return static_cast<Int>(static_cast<Bits>(Bits{0} - static_cast<Bits>(v)));
}

DAMACY_ELEMENT float sum(float a, float b) {
  const float result = a + b;
  return result == result ? result : bits_as<float>(convert_detail::kNan32);
}
DAMACY_ELEMENT double sum(double a, double b) {
  const double result = a + b;
  return result == result ? result : bits_as<double>(convert_detail::kNan64);
}
DAMACY_ELEMENT F16 sum(F16 a, F16 b) {
  return convert<F16>(sum(convert<float>(a), convert<float>(b)));
}
DAMACY_ELEMENT Bf16 sum(Bf16 a, Bf16 b) {
  return convert<Bf16>(sum(convert<float>(a), convert<float>(b)));
}
DAMACY_ELEMENT Complex64 sum(Complex64 a, Complex64 b) {
  return {sum(a.real, b.real), sum(a.imag, b.imag)};
}
DAMACY_ELEMENT Complex128 sum(Complex128 a, Complex128 b) {
  return {sum(a.real, b.real), sum(a.imag, b.imag)};
}
template <class Int>
  requires std::is_integral_v<Int>
DAMACY_ELEMENT Int sum(Int a, Int b) {
  using Bits = UnsignedOf<sizeof(Int)>;
  return static_cast<Int>(static_cast<Bits>(static_cast<Bits>(a) + static_cast<Bits>(b)));
}

// Calls `act` with a value of the type that `type` computes in.
template <class Act>
DAMACY_ELEMENT void with_type(Dtype type, Act act) {
  switch (type) {
    case Dtype::f32:
      return act(float{});
    case Dtype::bf16:
      return act(Bf16{});
    case Dtype::f16:
      return act(F16{});
    case Dtype::f64:
      return act(double{});
    case Dtype::u8:
    case Dtype::i8:
    case Dtype::boolean:
      return act(std::uint8_t{});
    case Dtype::u16:
    case Dtype::i16:
      return act(std::uint16_t{});
    case Dtype::u32:
    case Dtype::i32:
      return act(std::uint32_t{});
    case Dtype::complex64:
      return act(Complex64{});
    case Dtype::complex128:
      return act(Complex128{});
    default:
      return act(std::uint64_t{});
  }
}

}  // namespace damacy::copy
