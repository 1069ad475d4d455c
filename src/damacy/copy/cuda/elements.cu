// The kernels of elements.h.
#include "damacy/copy/cuda/elements.h"

#include "damacy/copy/cuda/kernels.h"

namespace damacy::copy_cuda {
namespace {

template <class Index, bool kFinish>
__global__ void __launch_bounds__(kThreads) place_each(Group group) {
  place_elements<Index, kFinish>(group, blockIdx.x, threadIdx.x);
}

}  // namespace

cudaError_t launch_elements(u32 kernel, const Group& group, u32 tiles, cudaStream_t stream) {
  if (kernel == kHugeFinished)
    place_each<u64, true><<<tiles, kThreads, 0, stream>>>(group);
  else if (kernel == kFinished)
    place_each<u32, true><<<tiles, kThreads, 0, stream>>>(group);
  else if (kernel == kHugeElements)
    place_each<u64, false><<<tiles, kThreads, 0, stream>>>(group);
  else
    place_each<u32, false><<<tiles, kThreads, 0, stream>>>(group);
  return cudaGetLastError();
}

}  // namespace damacy::copy_cuda
