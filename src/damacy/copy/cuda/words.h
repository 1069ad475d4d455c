// Single accesses and byte moves, in the words of the device where there are any. On the host an access that a device
// could not do ends the program. Knows addresses; not what lies there.
#pragma once

#include <cstring>

#include "damacy/copy/gpu_plan/record.h"

#ifdef __CUDA_ARCH__
#define DAMACY_UNROLL _Pragma("unroll")
#define DAMACY_NO_UNROLL _Pragma("unroll 1")
#else
#define DAMACY_UNROLL
#define DAMACY_NO_UNROLL
#endif

namespace damacy::copy_cuda {

#ifndef __CUDACC__
inline thread_local u64 stored_bytes = 0;  // so that tests know what was stored twice
#define DAMACY_COUNT_STORED(bytes) stored_bytes += (bytes)
#else
#define DAMACY_COUNT_STORED(bytes)
#endif

// Memory that is not written during the launch; aligned for T.
template <class T>
DAMACY_ELEMENT T load(u64 address) {
#ifdef __CUDA_ARCH__
  return __ldg(reinterpret_cast<const T*>(address));
#else
  if (address % sizeof(T) != 0) __builtin_trap();
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
#endif
}

// Stores are spelled out, as the compiler takes wide ones apart when the address comes from an integer.
template <class T>
DAMACY_ELEMENT void store(u64 address, T value) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 1)
    asm volatile("st.global.u8 [%0], %1;" ::"l"(address), "r"(static_cast<u32>(value)));
  else if constexpr (sizeof(T) == 2)
    asm volatile("st.global.u16 [%0], %1;" ::"l"(address), "h"(value));
  else if constexpr (sizeof(T) == 4)
    asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(value));
  else
    asm volatile("st.global.u64 [%0], %1;" ::"l"(address), "l"(value));
#else
  if (address % sizeof(T) != 0) __builtin_trap();
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
  DAMACY_COUNT_STORED(sizeof value);
#endif
}

// 16 bytes, aligned.
DAMACY_ELEMENT void store_vector(u64 address, const u32* words) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3]));
#else
  if (address % 16 != 0) __builtin_trap();
  std::memcpy(reinterpret_cast<void*>(address), words, 16);
  DAMACY_COUNT_STORED(16);
#endif
}

// Of a number below 2^31.
DAMACY_ELEMENT u32 divide(u32 number, const Divisor& by) {
#ifdef __CUDA_ARCH__
  return __umulhi(number << 1, by.mul) >> by.shift;
#else
  return static_cast<u32>(static_cast<u64>(number << 1) * by.mul >> 32) >> by.shift;
#endif
}

// In one step.
DAMACY_ELEMENT i64 product_and(i32 a, i32 b, i64 more) {
#ifdef __CUDA_ARCH__
  i64 result;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(result) : "r"(a), "r"(b), "l"(more));
  return result;
#else
  return static_cast<i64>(a) * b + more;
#endif
}

// The word that begins `bits` (0 to 31) into `low`.
DAMACY_ELEMENT u32 word_across(u32 low, u32 high, u32 bits) {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<u32>((static_cast<u64>(high) << 32 | low) >> bits);
#endif
}

// Byte i of the result is byte (kChoice >> 4 i & 7) of low (0 to 3) and high (4 to 7).
template <u32 kChoice>
DAMACY_ELEMENT u32 bytes_of(u32 low, u32 high) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, kChoice);
#else
  const u64 both = static_cast<u64>(high) << 32 | low;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) result |= static_cast<u32>(both >> (kChoice >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
  return result;
#endif
}

// Two floats, of which none is NaN, each rounded to half the size: `first` in the lower half.
template <class To>
DAMACY_ELEMENT u32 rounded_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // before it there are no such instructions
  u32 pair;
  if constexpr (std::is_same_v<To, Bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return convert<To>(first).bits | static_cast<u32>(convert<To>(second).bits) << 16;
#endif
}

}  // namespace damacy::copy_cuda
