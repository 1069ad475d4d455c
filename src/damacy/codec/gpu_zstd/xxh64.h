// XXH64 with seed 0, the hash behind zstd's content checksums: four chains over stripes of 32 bytes, then a tail.
// One source for host and device.
#pragma once

#include "damacy/codec/gpu_zstd/words.h"

namespace damacy::gpu {

struct Xxh64 {
  static constexpr u64 kPrime1 = 11400714785074694791ull;
  static constexpr u64 kPrime2 = 14029467366897019727ull;
  static constexpr u64 kPrime3 = 1609587929392839161ull;
  static constexpr u64 kPrime4 = 9650029242287828579ull;
  static constexpr u64 kPrime5 = 2870177450012600261ull;
  static constexpr u32 kStripe = 32;

  DAMACY_HOST_DEVICE static u64 rotate(u64 value, int left) { return value << left | value >> (64 - left); }

  // Chain `lane` of the four.
  DAMACY_HOST_DEVICE static u64 start(u32 lane) {
    return lane == 0 ? kPrime1 + kPrime2 : lane == 1 ? kPrime2 : lane == 2 ? 0 : 0 - kPrime1;
  }
  DAMACY_HOST_DEVICE static u64 round(u64 chain, u64 input) { return rotate(chain + input * kPrime2, 31) * kPrime1; }

  DAMACY_HOST_DEVICE static u64 merge(u64 a, u64 b, u64 c, u64 d) {
    u64 hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    hash = (hash ^ round(0, a)) * kPrime1 + kPrime4;
    hash = (hash ^ round(0, b)) * kPrime1 + kPrime4;
    hash = (hash ^ round(0, c)) * kPrime1 + kPrime4;
    return (hash ^ round(0, d)) * kPrime1 + kPrime4;
  }

  DAMACY_HOST_DEVICE static u64 read(const u8* bytes, u32 count) {
    u64 value = 0;
    for (u32 i = 0; i < count; ++i) value |= static_cast<u64>(bytes[i]) << (8 * i);
    return value;
  }

  // `hash`: the merged chains, or kPrime5 when there was no stripe. `tail`: the last size % 32 bytes.
  DAMACY_HOST_DEVICE static u64 finish(u64 hash, u64 size, const u8* tail) {
    hash += size;
    u32 left = static_cast<u32>(size % kStripe);
    for (; left >= 8; left -= 8, tail += 8) hash = rotate(hash ^ round(0, read(tail, 8)), 27) * kPrime1 + kPrime4;
    if (left >= 4) {
      hash = rotate(hash ^ read(tail, 4) * kPrime1, 23) * kPrime2 + kPrime3;
      left -= 4;
      tail += 4;
    }
    for (; left != 0; --left, ++tail) hash = rotate(hash ^ *tail * kPrime5, 11) * kPrime1;
    hash = (hash ^ hash >> 33) * kPrime2;
    hash = (hash ^ hash >> 29) * kPrime3;
    return hash ^ hash >> 32;
  }

  DAMACY_HOST_DEVICE static u64 hash(const u8* bytes, u64 size) {
    u64 chain[4] = {start(0), start(1), start(2), start(3)};
    const u64 stripes = size / kStripe;
    for (u64 i = 0; i < stripes; ++i)
      for (u32 lane = 0; lane < 4; ++lane) chain[lane] = round(chain[lane], read(bytes + i * kStripe + lane * 8, 8));
    return finish(stripes == 0 ? kPrime5 : merge(chain[0], chain[1], chain[2], chain[3]), size,
                  bytes + stripes * kStripe);
  }
};

}  // namespace damacy::gpu
