// The number of cores that this process may use.
#pragma once

#include <cstddef>

namespace damacy {

// Those of its affinity mask (taskset, Slurm, cpusets of containers), not those of the machine; at least 1.
[[nodiscard]] std::size_t affinity_cores() noexcept;

// The same, at most the quotas of its control groups (containers); at least 1. Reads files.
[[nodiscard]] std::size_t usable_cores() noexcept;

// Threads that such a quota keeps busy: rounded up, at least 1.
[[nodiscard]] std::size_t whole_cores(double quota) noexcept;

}  // namespace damacy
