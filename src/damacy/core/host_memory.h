// How much memory the host has to give. Knows Linux's files; not what the memory is for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace damacy {

// Bytes that can be had without swapping: what the system calls available, and no more than the control groups of this
// process leave (containers, Slurm). Empty: the system does not say. `root`: of the file system, for tests.
[[nodiscard]] std::optional<std::uint64_t> available_host_memory(const std::string& root = "");

}  // namespace damacy
