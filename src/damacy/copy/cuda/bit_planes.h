// Bytes of consecutive elements out of a block whose bits were shuffled: eight elements have a byte in each bit plane,
// and eight such bytes turned make a byte of each element. Knows a block; not what its elements are.
#pragma once

#include "damacy/copy/cuda/vectors.h"

namespace damacy::copy_cuda {

// Bit b of byte a to bit a of byte b. `low` are the bytes 0 to 3.
DAMACY_ELEMENT void turn_bits(u32& low, u32& high) {
  const auto turn_half = [](u32 x) {
    u32 t = (x ^ x >> 7) & 0x00aa00aau;
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000ccccu;
    return x ^ t ^ t << 14;
  };
  low = turn_half(low);
  high = turn_half(high);
  const u32 t = (low >> 4 ^ high) & 0x0f0f0f0fu;
  high ^= t;
  low ^= t << 4;
}

// Of kCount elements, 8 or 16, of kSize bytes, from any element of a block on. Elements outside of `part` are
// arbitrary.
template <int kCount, int kSize>
class BitPlanes {
 public:
  DAMACY_ELEMENT BitPlanes(const Block<u32>& block, const Part& part, i32 first)
      : part_(part),
        into_(static_cast<u32>(first) & 7u),
        plane_bytes_(block.elements / 8),
        address_(block.address + static_cast<u64>(static_cast<i64>(first >> 3))),
        skip_(static_cast<u32>(address_) & 3u),
        end_(block.address + u64{block.elements} * kSize) {
    by_words_ = plane_bytes_ % 4 == 0 && address_ - skip_ >= block.address && plane(8 * kSize - 1) - skip_ + 8 <= end_;
  }

  // Byte k of each element.
  DAMACY_ELEMENT void fetch(u32 (&bytes)[kSize][kCount / 4]) const {
    if (by_words_) {
      DAMACY_UNROLL
      for (int k = 0; k < kSize; ++k) fetch_words(k, bytes[k]);
    } else {
      DAMACY_UNROLL
      for (int k = 0; k < kSize; ++k) fetch_bytes(k, bytes[k]);
    }
  }

 private:
  static constexpr u32 kTouched = kCount / 8 + 1;  // bytes of a plane that elements may lie in

  DAMACY_ELEMENT u64 plane(int number) const { return address_ + static_cast<u64>(number) * plane_bytes_; }

  // Words hold what is needed, and mostly one does.
  DAMACY_ELEMENT void fetch_words(int k, u32* bytes) const {
    u32 planes[8], next[8];
    DAMACY_UNROLL
    for (int b = 0; b < 8; ++b) planes[b] = load<u32>(plane(8 * k + b) - skip_);
    DAMACY_UNROLL
    for (int b = 0; b < 8; ++b) next[b] = skip_ + kTouched > 4 ? load<u32>(plane(8 * k + b) - skip_ + 4) : 0;
    DAMACY_UNROLL
    for (int b = 0; b < 8; ++b) planes[b] = word_across(planes[b], next[b], 8 * skip_ + into_);
    turn(planes, bytes);
  }

  DAMACY_ELEMENT void fetch_bytes(int k, u32* bytes) const {
    u32 planes[8];
    DAMACY_UNROLL
    for (int b = 0; b < 8; ++b) {
      planes[b] = 0;
      DAMACY_NO_UNROLL
      for (u32 i = 0; i < kTouched; ++i) {
        const i32 begin = static_cast<i32>(8 * i) - static_cast<i32>(into_);  // the byte's first element
        if (begin + 8 > part_.low && begin < part_.high)
          planes[b] |= static_cast<u32>(load<u8>(plane(8 * k + b) + i)) << (8 * i);
      }
      planes[b] >>= into_;
    }
    turn(planes, bytes);
  }

  // `planes`: a bit of each element, the first element's the lowest.
  DAMACY_ELEMENT static void turn(const u32* planes, u32* bytes) {
    DAMACY_UNROLL
    for (int group = 0; group < kCount / 8; ++group) {
      u32 low = 0, high = 0;
      DAMACY_UNROLL
      for (int b = 0; b < 4; ++b) {
        low |= (planes[b] >> (8 * group) & 0xffu) << (8 * b);
        high |= (planes[b + 4] >> (8 * group) & 0xffu) << (8 * b);
      }
      turn_bits(low, high);
      bytes[2 * group] = low;
      bytes[2 * group + 1] = high;
    }
  }

  Part part_;
  u32 into_;
  u32 plane_bytes_;
  u64 address_;
  u32 skip_;
  u64 end_;
  bool by_words_;
};

}  // namespace damacy::copy_cuda
