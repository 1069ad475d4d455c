// The kernels of shuffled.h.
#include "damacy/copy/cuda/shuffled.h"

#include "damacy/copy/cuda/kernels.h"

namespace damacy::copy_cuda {
namespace {

// Blocks of a multiprocessor that shall find registers.
template <class Op>
constexpr int kResident = sizeof(typename Op::From) > 2 ? 3 : 4;

// A block owns the tile of its number.
template <class Op, u8 kShuffle>
__global__ void __launch_bounds__(kThreads, kResident<Op>) place_shuffled(Group group) {
  ShuffledKernel<typename Op::From, typename Op::To, kShuffle>::run(group, blockIdx.x, threadIdx.x);
}

template <u8 kShuffle, class... Ops>
auto kernel_of(OpList<Ops...>, u32 op) {
  void (*const kernels[])(Group) = {place_shuffled<Ops, kShuffle>...};
  return kernels[op];
}

}  // namespace

cudaError_t launch_shuffled(u32 op, const Group& group, u32 tiles, cudaStream_t stream) {
  kernel_of<kShuffleBytes>(ShuffledOps{}, op)<<<tiles, kThreads, 0, stream>>>(group);
  return cudaGetLastError();
}

cudaError_t launch_bit_shuffled(u32 op, const Group& group, u32 tiles, cudaStream_t stream) {
  kernel_of<kShuffleBits>(BitShuffledOps{}, op)<<<tiles, kThreads, 0, stream>>>(group);
  return cudaGetLastError();
}

}  // namespace damacy::copy_cuda
