// Memory of the slots of a pipeline: what one takes, how many stay, and how much added ones may take. Known from the
// first sample on, which fixes the extents. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "damacy/batch/config.h"
#include "damacy/core/machine.h"

namespace damacy {

// Limits of slots beyond Config::n_batches, in bytes.
struct KeepLimit {
  std::int64_t bytes = 0;       // that added slots may take
  std::int64_t keep_bytes = 0;  // as configured, or as chosen; `bytes` is less where max_gpu_memory_bytes leaves less
};

struct SlotPlan {
  std::int64_t count = 0;  // that stay
  std::int64_t bytes = 0;  // of one
  KeepLimit keep;
};

// Bytes of one array in a slot, rounded up so that arrays and slots keep their alignment. Throws Error(oom, "memory")
// when it overflows.
inline constexpr std::size_t kBatchAlignment = 256;
[[nodiscard]] std::int64_t array_slot_bytes(std::int64_t batch_size, std::int64_t elements_per_sample, Dtype dtype);

// Throws Error(oom, "gpu-memory"): the fixed part (and, with slot bytes, all) of the device's memory against
// max_gpu_memory_bytes.
void check_gpu_memory(const Config& config, std::int64_t bytes_of_one_slot);

// Config::keep_bytes where it is set. Where it is not: 0, or with `choose` the larger of 2 GiB and 8 batches, at most a
// quarter of the host's free memory or an eighth of the GPU's (as far as known). In both cases no more than
// max_gpu_memory_bytes leaves over. `slot`: bytes of one, at least 1.
[[nodiscard]] KeepLimit keep_limit(const Config& config, const Machine& machine, std::int64_t slot, bool choose);

// All of these. Throws Error(oom) if slots do not fit max_gpu_memory_bytes or the machine.
[[nodiscard]] SlotPlan plan_slots(const Config& config, const Machine& machine, std::int64_t bytes_of_one_slot,
                                  bool choose);

}  // namespace damacy
