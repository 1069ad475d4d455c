// Threads inherit a way of rounding, and whether subnormals count, from whoever started them.
#pragma once

namespace damacy::copy_detail {

// While this lives (and where it is needed) floats are as the standard has them.
class FloatsAsStandard {
 public:
#ifdef __x86_64__
  explicit FloatsAsStandard(bool needed) : found_(needed ? __builtin_ia32_stmxcsr() : kStandard) {
    if (changed()) __builtin_ia32_ldmxcsr(kStandard);
  }
  ~FloatsAsStandard() {
    if (changed()) __builtin_ia32_ldmxcsr(found_);
  }
  FloatsAsStandard(const FloatsAsStandard&) = delete;
  FloatsAsStandard& operator=(const FloatsAsStandard&) = delete;

 private:
  static constexpr unsigned kStandard = 0x1f80;   // nearest even, subnormals kept, no traps
  static constexpr unsigned kHasHappened = 0x3f;  // flags, which do not matter
  bool changed() const { return (found_ & ~kHasHappened) != kStandard; }
  unsigned found_;
#else
  explicit FloatsAsStandard(bool) {}
#endif
};

}  // namespace damacy::copy_detail
