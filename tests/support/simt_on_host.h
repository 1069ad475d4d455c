// Runs kernels on the host, for tests: every thread of a block is a fibre, which runs until it meets others (a barrier,
// a vote) or ends. Copies to shared memory land when they are waited for and not before, and the order in which threads
// run is drawn at random, so a missing wait or barrier shows as wrong bytes, and sanitizers see every access. Knows
// only the words that our kernels use. One launch at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "damacy/codec/gpu_zstd/words.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)

struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct ulonglong2 {
  unsigned long long x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) {
  return {x, y};
}

namespace damacy::gpu::simt {

struct Dim3 {
  u32 x = 1, y = 1, z = 1;
};

struct Launch {
  u32 blocks = 1;
  u32 threads = 1;
  std::size_t shared_bytes = 0;
};

// Runs body() as every thread of every block. `seed` draws the order of threads.
void launch(const Launch& shape, const std::function<void()>& body, u64 seed);

// What the running thread may ask.
u8* dynamic_shared();
void copy_async(void* shared, const void* global, std::size_t bytes);
void copy_async_wait();
// Waits for the lanes of `mask` in this warp; the lanes that gave a value other than 0. Lanes that ended count as met.
u32 vote(u32 mask, bool value);
// Gives every lane the value of lane `from`.
u32 broadcast(u32 mask, u32 value, u32 from);
// Waits for all threads of the block; how many gave true.
u32 meet(bool value);

extern Dim3 thread_index, block_index, block_size;

}  // namespace damacy::gpu::simt

#define threadIdx (::damacy::gpu::simt::thread_index)
#define blockIdx (::damacy::gpu::simt::block_index)
#define blockDim (::damacy::gpu::simt::block_size)

inline void __syncwarp(unsigned mask = 0xffffffffu) {
  damacy::gpu::simt::vote(mask, false);
}
inline unsigned __ballot_sync(unsigned mask, bool value) {
  return damacy::gpu::simt::vote(mask, value);
}
inline bool __any_sync(unsigned mask, bool value) {
  return damacy::gpu::simt::vote(mask, value) != 0;
}
inline bool __all_sync(unsigned mask, bool value) {
  return damacy::gpu::simt::vote(mask, !value) == 0;
}
inline unsigned __shfl_sync(unsigned mask, unsigned value, unsigned from) {
  return damacy::gpu::simt::broadcast(mask, value, from);
}
inline void __syncthreads() {
  damacy::gpu::simt::meet(false);
}
inline int __syncthreads_count(bool value) {
  return static_cast<int>(damacy::gpu::simt::meet(value));
}
inline unsigned __popc(unsigned value) {
  return static_cast<unsigned>(__builtin_popcount(value));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i)
    out |= static_cast<unsigned>(both >> (8 * (selector >> (4 * i) & 7)) & 255) << (8 * i);
  return out;
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += static_cast<std::int8_t>(a >> (8 * i)) * static_cast<std::int8_t>(b >> (8 * i));
  return c;
}
inline unsigned atomicAdd(unsigned* at, unsigned value) {
  const unsigned old = *at;
  *at += value;
  return old;
}
inline unsigned atomicOr(unsigned* at, unsigned value) {
  const unsigned old = *at;
  *at |= value;
  return old;
}

namespace damacy::gpu {

inline void copy_async_16(void* shared, const void* global) {
  simt::copy_async(shared, global, 16);
}
inline float reciprocal(float value) {
  return 1.0f / value;
}
class SharedTable {
 public:
  SharedTable(const u32* words, u32 first) : words_(words), first_(first) {}
  u32 operator[](u32 index) const { return words_[index - first_]; }

 private:
  const u32* words_;
  u32 first_;
};
inline void copy_async_commit() {}
inline void copy_async_wait() {
  simt::copy_async_wait();
}

}  // namespace damacy::gpu
