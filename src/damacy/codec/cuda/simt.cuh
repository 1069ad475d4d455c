// The machine that the kernels run on: CUDA, or its stand-in on the host, where kernels run under sanitizers without a
// GPU. Only this file knows which compiler reads it.
#pragma once

#include "damacy/codec/gpu_zstd/words.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define DAMACY_PRAGMA(text) _Pragma(#text)
#define DAMACY_UNROLL(times) DAMACY_PRAGMA(unroll times)
#define DAMACY_DYNAMIC_SHARED(name) extern __shared__ __align__(16) damacy::gpu::u8 name[]

namespace damacy::gpu {

// Sixteen bytes from global to shared memory, behind the thread's back; both aligned. A thread sees what it copied
// after it committed and waited. Before compute capability 8.0 the thread copies them itself.
__device__ __forceinline__ void copy_async_16(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<u32>(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
#else
  *static_cast<uint4*>(shared) = __ldcg(static_cast<const uint4*>(global));
#endif
}
// 1 / value, off by a unit in the last place.
__device__ __forceinline__ float reciprocal(float value) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}
__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}

// A table in shared memory whose first index is not 0. One multiply-add gives an entry's address: with pointers the
// compiler adds index and bias first.
class SharedTable {
 public:
  __device__ __forceinline__ SharedTable(const u32* words, u32 first)
      : address_(static_cast<u32>(__cvta_generic_to_shared(words)) - 4 * first) {}
  __device__ __forceinline__ u32 operator[](u32 index) const {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address_ + 4 * index));
    return word;
  }

 private:
  u32 address_;
};

}  // namespace damacy::gpu

#else

#include "support/simt_on_host.h"

#define DAMACY_UNROLL(times)
#define DAMACY_DYNAMIC_SHARED(name) damacy::gpu::u8* const name = damacy::gpu::simt::dynamic_shared()

#endif

namespace damacy::gpu {

inline constexpr u32 kWarp = 32;
inline constexpr u32 kWholeWarp = 0xffffffffu;

}  // namespace damacy::gpu
