// Launches of the kernels, one file a family so that they compile side by side. Knows CUDA streams.
#pragma once

#include <cuda_runtime_api.h>

#include "damacy/copy/gpu_plan/record.h"

namespace damacy::copy_cuda {

cudaError_t launch_rows(u32 op, const Group& group, u32 tiles, cudaStream_t stream);
cudaError_t launch_shuffled(u32 op, const Group& group, u32 tiles, cudaStream_t stream);
cudaError_t launch_bit_shuffled(u32 op, const Group& group, u32 tiles, cudaStream_t stream);
// Copies whole 16 bytes: both are aligned to that, and as long, rounded up.
cudaError_t launch_fetch(u64 image, u64 pinned, u64 bytes, cudaStream_t stream);
cudaError_t launch_elements(u32 kernel, const Group& group, u32 tiles, cudaStream_t stream);

}  // namespace damacy::copy_cuda
