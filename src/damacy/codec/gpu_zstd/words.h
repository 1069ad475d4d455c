// Integers of fixed width, bit helpers and a checked view of bytes, the same on host and device.
// Knows which compiler reads it only to count leading zeros; knows no format.
#pragma once

#include <cstdint>

#include "damacy/core/host_device_macro.h"

namespace damacy::gpu {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i16 = std::int16_t;

inline constexpr u32 kNone = 0xffffffffu;

// Position of the highest set bit; value > 0.
DAMACY_HOST_DEVICE inline u32 log2_floor(u32 value) {
#ifdef __CUDA_ARCH__
  return 31u - static_cast<u32>(__clz(static_cast<int>(value)));
#else
  return 31u - static_cast<u32>(__builtin_clz(value));
#endif
}

// A checked view: what lies past the end reads as zero.
struct ByteView {
  const u8* data;
  u32 size;

  DAMACY_HOST_DEVICE u32 at(u32 i) const { return i < size ? data[i] : 0u; }

  // Up to 16 bits from bit position `bit` on, least significant first.
  DAMACY_HOST_DEVICE u32 bits(u32 bit, u32 count) const {
    const u32 i = bit >> 3;
    const u32 word = at(i) | at(i + 1) << 8 | at(i + 2) << 16;
    return (word >> (bit & 7)) & ((1u << count) - 1);
  }

  DAMACY_HOST_DEVICE u32 u16_at(u32 i) const { return at(i) | at(i + 1) << 8; }

  // From `begin` (at most size) to the end.
  DAMACY_HOST_DEVICE ByteView from(u32 begin) const { return {data + begin, size - begin}; }
};

}  // namespace damacy::gpu
