// The kernels of shuffled.h.
#include "damacy/copy/cuda/shuffled.h"

#include "damacy/copy/cuda/kernels.h"

namespace damacy::copy_cuda {
namespace {

// A block owns the tile of its number.
template <class Op>
__global__ void __launch_bounds__(kThreads) place_shuffled(Group group) {
  ShuffledKernel<typename Op::From, typename Op::To>::run(group, blockIdx.x, threadIdx.x);
}

template <class... Ops>
auto kernel_of(OpList<Ops...>, u32 op) {
  void (*const kernels[])(Group) = {place_shuffled<Ops>...};
  return kernels[op];
}

}  // namespace

cudaError_t launch_shuffled(u32 op, const Group& group, u32 tiles, cudaStream_t stream) {
  kernel_of(ShuffledOps{}, op)<<<tiles, kThreads, 0, stream>>>(group);
  return cudaGetLastError();
}

}  // namespace damacy::copy_cuda
