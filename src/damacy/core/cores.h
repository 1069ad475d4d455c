// The number of cores that this process may use.
#pragma once

#include <cstddef>

namespace damacy {

// Those of its affinity mask (taskset, Slurm, cpusets of containers), not those of the machine; at least 1.
[[nodiscard]] std::size_t usable_cores() noexcept;

}  // namespace damacy
