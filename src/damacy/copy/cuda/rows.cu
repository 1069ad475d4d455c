// The kernels of rows.h.
#include "damacy/copy/cuda/rows.h"

#include "damacy/copy/cuda/kernels.h"

namespace damacy::copy_cuda {
namespace {

// Blocks of a multiprocessor that shall find registers.
template <class Op>
constexpr int kResident = kVectorOf<typename Op::To> * sizeof(typename Op::From) > 16 ? 3 : 4;

// A block owns the tile of its number.
template <class Op>
__global__ void __launch_bounds__(kThreads, kResident<Op>) place_rows(Group group) {
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
