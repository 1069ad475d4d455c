// Inner loops of un-shuffling: plain ones, ones for x86-64 with AVX2 and with GFNI, chosen when first used, and ones
// with NEON, which every AArch64 processor has.
#include "damacy/codec/shuffle_kernels.h"

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace damacy::detail {
namespace {

// Bits as an 8 x 8 matrix, row = byte: rows become columns.
constexpr std::uint64_t transposed(std::uint64_t x) noexcept {
  std::uint64_t swap = (x ^ (x >> 7)) & 0x00aa00aa00aa00aa;
  x ^= swap ^ (swap << 7);
  swap = (x ^ (x >> 14)) & 0x0000cccc0000cccc;
  x ^= swap ^ (swap << 14);
  swap = (x ^ (x >> 28)) & 0x00000000f0f0f0f0;
  return x ^ swap ^ (swap << 28);
}

// From element `first` on.
void interleave_rest(const std::byte* const* planes, std::size_t first, std::size_t count, std::size_t typesize,
                     std::byte* out) noexcept {
  for (std::size_t i = first; i < count; ++i)
    for (std::size_t k = 0; k < typesize; ++k) out[i * typesize + k] = planes[k][i];
}

void interleave_plainly(const std::byte* const* planes, std::size_t count, std::size_t typesize,
                        std::byte* out) noexcept {
  interleave_rest(planes, 0, count, typesize, out);
}

void join_bits_plainly(const std::byte* planes, std::size_t stride, std::size_t bytes, std::byte* out) noexcept {
  for (std::size_t j = 0; j < bytes; ++j) {
    std::uint64_t rows = 0;
    for (std::size_t b = 0; b < 8; ++b) rows |= static_cast<std::uint64_t>(planes[b * stride + j]) << (8 * b);
    rows = transposed(rows);
    for (std::size_t i = 0; i < 8; ++i) out[8 * j + i] = static_cast<std::byte>(rows >> (8 * i));
  }
}

}  // namespace

#if defined(__x86_64__)
namespace {

#define DAMACY_VECTOR __attribute__((target("avx2")))
#define DAMACY_VECTOR_INLINE __attribute__((target("avx2"), always_inline)) inline
#define DAMACY_GFNI __attribute__((target("avx2,gfni")))

using Lanes = __m256i;

DAMACY_VECTOR_INLINE Lanes load(const std::byte* from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const Lanes*>(from));
}

DAMACY_VECTOR_INLINE void store(std::byte* to, Lanes value) noexcept {
  _mm256_storeu_si256(reinterpret_cast<Lanes*>(to), value);
}

DAMACY_VECTOR_INLINE Lanes zip_low(Lanes a, Lanes b) noexcept {
  return _mm256_unpacklo_epi8(a, b);
}

DAMACY_VECTOR_INLINE Lanes zip_high(Lanes a, Lanes b) noexcept {
  return _mm256_unpackhi_epi8(a, b);
}

// In each v[j], lane 0 of 128 bits is of the first sixteen elements, lane 1 of the last sixteen.
template <std::size_t T>
DAMACY_VECTOR_INLINE void store_zipped(const Lanes (&v)[T], std::byte* out) noexcept {
#pragma GCC unroll 8
  for (std::size_t j = 0; j < T; j += 2) {
    store(out + 16 * j, _mm256_permute2x128_si256(v[j], v[j + 1], 0x20));
    store(out + 16 * T + 16 * j, _mm256_permute2x128_si256(v[j], v[j + 1], 0x31));
  }
}

template <int kShift>
DAMACY_VECTOR_INLINE Lanes swap_bits(Lanes x, std::uint64_t mask) noexcept {
  const Lanes masks = _mm256_set1_epi64x(static_cast<long long>(mask));
  const Lanes swap = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, kShift)), masks);
  return _mm256_xor_si256(x, _mm256_xor_si256(swap, _mm256_slli_epi64(swap, kShift)));
}

}  // namespace

#elif defined(__aarch64__)
namespace {

#define DAMACY_VECTOR
#define DAMACY_VECTOR_INLINE __attribute__((always_inline)) inline

using Lanes = uint8x16_t;

DAMACY_VECTOR_INLINE Lanes load(const std::byte* from) noexcept {
  return vld1q_u8(reinterpret_cast<const std::uint8_t*>(from));
}

DAMACY_VECTOR_INLINE Lanes zip_low(Lanes a, Lanes b) noexcept {
  return vzip1q_u8(a, b);
}

DAMACY_VECTOR_INLINE Lanes zip_high(Lanes a, Lanes b) noexcept {
  return vzip2q_u8(a, b);
}

template <std::size_t T>
DAMACY_VECTOR_INLINE void store_zipped(const Lanes (&v)[T], std::byte* out) noexcept {
#pragma GCC unroll 16
  for (std::size_t j = 0; j < T; ++j) vst1q_u8(reinterpret_cast<std::uint8_t*>(out + 16 * j), v[j]);
}

template <int kShift>
DAMACY_VECTOR_INLINE Lanes swap_bits(Lanes bytes, std::uint64_t mask) noexcept {
  const uint64x2_t x = vreinterpretq_u64_u8(bytes);
  const uint64x2_t swap = vandq_u64(veorq_u64(x, vshrq_n_u64(x, kShift)), vdupq_n_u64(mask));
  return vreinterpretq_u8_u64(veorq_u64(x, veorq_u64(swap, vshlq_n_u64(swap, kShift))));
}

}  // namespace
#endif

#if defined(DAMACY_VECTOR)
namespace {

constexpr std::size_t kLanes = sizeof(Lanes);

// Zips plane k with plane k + T / 2, log2(T) times: then v[0], v[1], ... are the bytes of whole elements.
template <std::size_t T>
DAMACY_VECTOR_INLINE void zip(Lanes (&v)[T]) noexcept {
#pragma GCC unroll 4
  for (std::size_t done = 1; done < T; done *= 2) {
    Lanes next[T];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < T / 2; ++k) {
      next[2 * k] = zip_low(v[k], v[k + T / 2]);
      next[2 * k + 1] = zip_high(v[k], v[k + T / 2]);
    }
#pragma GCC unroll 16
    for (std::size_t k = 0; k < T; ++k) v[k] = next[k];
  }
}

template <std::size_t T>
DAMACY_VECTOR void interleave_of(const std::byte* const* planes, std::size_t count, std::byte* out) noexcept {
  const std::byte* plane[T];
#pragma GCC unroll 16
  for (std::size_t k = 0; k < T; ++k) plane[k] = planes[k];
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes v[T];
#pragma GCC unroll 16
    for (std::size_t k = 0; k < T; ++k) v[k] = load(plane[k] + i);
    zip(v);
    store_zipped(v, out + i * T);  // in element order
  }
  interleave_rest(planes, i, count, T, out);
}

void interleave(const std::byte* const* planes, std::size_t count, std::size_t typesize, std::byte* out) noexcept {
  switch (typesize) {
    case 2:
      return interleave_of<2>(planes, count, out);
    case 4:
      return interleave_of<4>(planes, count, out);
    case 8:
      return interleave_of<8>(planes, count, out);
    case 16:
      return interleave_of<16>(planes, count, out);
    default:
      return interleave_plainly(planes, count, typesize, out);
  }
}

DAMACY_VECTOR void join_bits(const std::byte* planes, std::size_t stride, std::size_t bytes, std::byte* out) noexcept {
  std::size_t j = 0;
  for (; j + kLanes <= bytes; j += kLanes) {
    Lanes v[8];
#pragma GCC unroll 8
    for (std::size_t b = 0; b < 8; ++b) v[b] = load(planes + b * stride + j);
    zip(v);
#pragma GCC unroll 8
    for (std::size_t b = 0; b < 8; ++b) {
      v[b] = swap_bits<7>(v[b], 0x00aa00aa00aa00aa);
      v[b] = swap_bits<14>(v[b], 0x0000cccc0000cccc);
      v[b] = swap_bits<28>(v[b], 0x00000000f0f0f0f0);
    }
    store_zipped(v, out + 8 * j);
  }
  join_bits_plainly(planes + j, stride, bytes - j, out + 8 * j);
}

#if defined(DAMACY_GFNI)
// The affine instruction multiplies a bit matrix with bytes; with 1, 2, 4, ... 128 as bytes that is a transposition
// whose rows come last first, so the planes go in last first.
DAMACY_GFNI void join_bits_gfni(const std::byte* planes, std::size_t stride, std::size_t bytes,
                                std::byte* out) noexcept {
  const __m256i unit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  std::size_t j = 0;
  for (; j + kLanes <= bytes; j += kLanes) {
    Lanes v[8];
#pragma GCC unroll 8
    for (std::size_t b = 0; b < 8; ++b) v[7 - b] = load(planes + b * stride + j);
    zip(v);
#pragma GCC unroll 8
    for (std::size_t b = 0; b < 8; ++b) v[b] = _mm256_gf2p8affine_epi64_epi8(unit, v[b], 0);
    store_zipped(v, out + 8 * j);
  }
  join_bits_plainly(planes + j, stride, bytes - j, out + 8 * j);
}
#endif

}  // namespace
#endif

ShuffleKernelList shuffle_kernels() noexcept {
  ShuffleKernelList list{{{interleave_plainly, join_bits_plainly}}, 1};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    list.kernels[list.count++] = {interleave, join_bits};
    if (__builtin_cpu_supports("gfni")) list.kernels[list.count++] = {interleave, join_bits_gfni};
  }
#elif defined(__aarch64__)
  list.kernels[list.count++] = {interleave, join_bits};
#endif
  return list;
}

}  // namespace damacy::detail
