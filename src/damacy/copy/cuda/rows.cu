// The kernels of rows.h.
#include "damacy/copy/cuda/rows.h"

#include "damacy/copy/cuda/kernels.h"

namespace damacy::copy_cuda {
namespace {

// A block owns the tile of its number.
template <class Op>
__global__ void __launch_bounds__(kThreads, 4) place_rows(Group group) {
  RowKernel<typename Op::From, typename Op::To>::run(group, blockIdx.x, threadIdx.x);
}

template <class... Ops>
auto kernel_of(OpList<Ops...>, u32 op) {
  void (*const kernels[])(Group) = {place_rows<Ops>...};
  return kernels[op];
}

}  // namespace

cudaError_t launch_rows(u32 op, const Group& group, u32 tiles, cudaStream_t stream) {
  kernel_of(RowOps{}, op)<<<tiles, kThreads, 0, stream>>>(group);
  return cudaGetLastError();
}

}  // namespace damacy::copy_cuda
