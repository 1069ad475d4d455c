// A kernel that loads an image from pinned host memory. A small copy would wait behind large copies of other streams,
// because all copies share one engine.
#include "damacy/copy/cuda/kernels.h"

namespace damacy::copy_cuda {
namespace {

__global__ void fetch(uint4* image, const uint4* pinned, u64 count) {
  const u64 step = u64{gridDim.x} * blockDim.x;
  for (u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) image[i] = pinned[i];
}

}  // namespace

cudaError_t launch_fetch(u64 image, u64 pinned, u64 bytes, cudaStream_t stream) {
  const u64 count = (bytes + sizeof(uint4) - 1) / sizeof(uint4);
  const u64 blocks = (count + kThreads - 1) / kThreads;
  fetch<<<static_cast<u32>(blocks < 64 ? blocks : 64), kThreads, 0, stream>>>(
      reinterpret_cast<uint4*>(image), reinterpret_cast<const uint4*>(pinned), count);
  return cudaGetLastError();
}

}  // namespace damacy::copy_cuda
