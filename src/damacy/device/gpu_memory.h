// Free memory of a GPU from NVIDIA's management library (NVML), which needs no CUDA context. Knows
// CUDA_VISIBLE_DEVICES; not CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace damacy {

// What is asked of NVML; another implementation is for tests. Bytes; empty if it does not know the GPU.
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;
  virtual std::optional<std::uint64_t> free_of_index(unsigned index) = 0;
  virtual std::optional<std::uint64_t> free_of_name(const std::string& uuid) = 0;
};

// Null without the library. It stays open for as long as the process lives.
[[nodiscard]] std::shared_ptr<GpuMemory> open_nvml();

// Of the `ordinal`-th visible GPU. `visible`: CUDA_VISIBLE_DEVICES if it is set, indices or names with commas.
[[nodiscard]] std::optional<std::uint64_t> free_gpu_memory(GpuMemory& memory, unsigned ordinal,
                                                           const std::optional<std::string>& visible);

}  // namespace damacy
