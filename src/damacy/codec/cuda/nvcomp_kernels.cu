// The kernels around nvCOMP's: a thread an entry of the lists, a block a raw frame. Bodies: nvcomp/wave.h.
#include "damacy/codec/nvcomp/wave.h"

namespace damacy::nvcomp {
namespace {

constexpr u32 kThreads = 128;
constexpr u32 kCopyThreads = 1024;  // a byte each: a block waits for memory once a kilobyte

__global__ void describe_frames(View view) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < view.packed) describe(view, i);
}

__global__ void copy_raw_frames(View view) {
  copy_raw(view, view.packed + blockIdx.x, threadIdx.x, blockDim.x);
}

__global__ void conclude_frames(View view) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < view.count) conclude(view, i);
}

u32 blocks_for(u32 count) {
  return (count + kThreads - 1) / kThreads;
}

}  // namespace

int launch_prepare(const View& view, u64 stream) {
  const auto on = reinterpret_cast<cudaStream_t>(stream);
  if (view.packed != 0) describe_frames<<<blocks_for(view.packed), kThreads, 0, on>>>(view);
  if (view.count != view.packed) copy_raw_frames<<<view.count - view.packed, kCopyThreads, 0, on>>>(view);
  return static_cast<int>(cudaGetLastError());
}

int launch_conclude(const View& view, u64 stream) {
  if (view.count != 0)
    conclude_frames<<<blocks_for(view.count), kThreads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(view);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace damacy::nvcomp
