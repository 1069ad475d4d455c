// The limit of memory for slots beyond Config::n_batches, and the error for a caller that reached it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/batch/slots.h"

namespace damacy {

// Memory of the kind that slots are made of.
struct FreeMemory {
  std::uint64_t bytes = 0;
  bool on_gpu = false;
};

struct KeepLimit {
  std::int64_t bytes = 0;       // that added slots may take
  std::int64_t keep_bytes = 0;  // as configured, or as chosen; `bytes` is less where max_gpu_memory_bytes leaves less
};

// Config::keep_bytes where it is set. Where it is not: 0, or with `choose` the larger of 2 GiB and 8 batches, at most a
// quarter of the host's free memory or an eighth of the GPU's (as far as known). In both cases no more than
// max_gpu_memory_bytes leaves over. `slot`: bytes of one, at least 1.
[[nodiscard]] KeepLimit keep_limit(const Config& config, std::int64_t slot, bool choose,
                                   const std::optional<FreeMemory>& free);

// The error for a consumer that holds all slots. `held`: batch ids, ascending.
[[nodiscard]] std::string held_text(const Config& config, const KeepLimit& limit, std::int64_t slot,
                                    const Slots::Added& added, const std::vector<std::int64_t>& held);

}  // namespace damacy
