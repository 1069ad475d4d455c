// The kernels of elements.h.
#include "damacy/copy/cuda/elements.h"

#include "damacy/copy/cuda/kernels.h"

namespace damacy::copy_cuda {
namespace {

template <class Index>
__global__ void __launch_bounds__(kThreads) place_each(Group group) {
  place_elements<Index>(group, blockIdx.x, threadIdx.x);
}

}  // namespace

cudaError_t launch_elements(bool huge, const Group& group, u32 tiles, cudaStream_t stream) {
  if (huge)
    place_each<u64><<<tiles, kThreads, 0, stream>>>(group);
  else
    place_each<u32><<<tiles, kThreads, 0, stream>>>(group);
  return cudaGetLastError();
}

}  // namespace damacy::copy_cuda
