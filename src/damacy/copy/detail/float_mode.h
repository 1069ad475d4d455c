// The floating-point mode of a thread. A thread inherits its rounding mode and flush-to-zero setting from the thread
// that started it. Knows the control registers of x86-64 (MXCSR) and AArch64 (FPCR); does nothing on other processors.
#pragma once

#include <cstdint>

namespace damacy::copy_detail {

#if defined(__x86_64__)
using FloatControl = unsigned;
inline constexpr FloatControl kStandardFloats = 0x1f80;    // nearest even, subnormals kept, no traps
inline constexpr FloatControl kFloatsThatHappened = 0x3f;  // flags, which do not matter
inline FloatControl float_control() {
  return __builtin_ia32_stmxcsr();
}
inline void set_float_control(FloatControl control) {
  __builtin_ia32_ldmxcsr(control);
}
#elif defined(__aarch64__)
using FloatControl = std::uint64_t;
inline constexpr FloatControl kStandardFloats = 0;      // as above; NaNs keep what they hold
inline constexpr FloatControl kFloatsThatHappened = 0;  // flags are in another register
inline FloatControl float_control() {
  FloatControl control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
inline void set_float_control(FloatControl control) {
  asm volatile("msr fpcr, %0" ::"r"(control) : "memory");
}
#else
using FloatControl = unsigned;
inline constexpr FloatControl kStandardFloats = 0, kFloatsThatHappened = 0;
inline FloatControl float_control() {
  return kStandardFloats;
}
inline void set_float_control(FloatControl) {}
#endif

// While this lives (and where it is needed) floats are as the standard has them.
class FloatsAsStandard {
 public:
  explicit FloatsAsStandard(bool needed) : found_(needed ? float_control() : kStandardFloats) {
    if (changed()) set_float_control(kStandardFloats);
  }
  ~FloatsAsStandard() {
    if (changed()) set_float_control(found_);
  }
  FloatsAsStandard(const FloatsAsStandard&) = delete;
  FloatsAsStandard& operator=(const FloatsAsStandard&) = delete;

 private:
  bool changed() const { return (found_ & ~kFloatsThatHappened) != kStandardFloats; }
  FloatControl found_;
};

}  // namespace damacy::copy_detail
