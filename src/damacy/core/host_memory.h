// How much memory is available on the host. Knows Linux's files; not what the memory is for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace damacy {

// Bytes available without swapping: MemAvailable, limited by what the control groups of this process have left
// (containers, Slurm). Empty if the system does not say. `root`: root of the file system, for tests.
[[nodiscard]] std::optional<std::uint64_t> available_host_memory(const std::string& root = "");

}  // namespace damacy
