// What the control groups of this process (containers, Slurm) leave it: processor time and memory. Knows the files of
// both versions of control groups; not what the numbers are for. Content that is not understood is no limit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace damacy {

// The text of a file of the system by its path ("/proc/self/cgroup"). Empty if it cannot be read.
using ReadText = std::function<std::string(const std::string& path)>;

// Files below `root`, at most 64 KiB of each: "" is the system, a folder is for tests.
[[nodiscard]] ReadText files_below(std::string root);

// A decimal number without sign, below 2**63. Spaces around it are ignored. Empty for anything else, such as "max".
[[nodiscard]] std::optional<std::uint64_t> decimal_of(std::string_view text);

// Folders of this process's groups with `controller` ("cpu", "memory"), of all groups above them, and of the group that
// a container sees as its root.
[[nodiscard]] std::vector<std::string> group_folders(const ReadText& read, std::string_view controller);

// In cores, the least of all groups. Empty without a quota.
[[nodiscard]] std::optional<double> cpu_quota(const ReadText& read);

// Bytes that the groups have left, the least of all. Pages of the page cache count as free: they are given up when
// memory is needed. Empty without a limit.
[[nodiscard]] std::optional<std::uint64_t> memory_left(const ReadText& read);

}  // namespace damacy
