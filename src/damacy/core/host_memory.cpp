#include "damacy/core/host_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace damacy {
namespace {

// The number after `name` in lines of names and numbers. If `name` is empty, the number of the first line.
std::optional<std::uint64_t> number_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  while (name.empty() || (file >> word)) {
    std::uint64_t number = 0;
    if (name.empty() || word == name) return file >> number ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

// Bytes that the control group with these files has left. Inactive page cache counts as free. "max" means no limit.
std::optional<std::uint64_t> left_in(const std::string& limit, const std::string& used, const std::string& stat,
                                     const std::string& inactive) {
  const auto most = number_in(limit, "");
  const auto now = number_in(used, "");
  if (!most || !now) return std::nullopt;
  const std::uint64_t held = *now - std::min(*now, number_in(stat, inactive).value_or(0));
  return *most - std::min(*most, held);
}

// This process's groups by kind of hierarchy, and the group that a container sees as its root.
std::vector<std::string> groups(const std::string& root, const std::string& hierarchy) {
  std::vector<std::string> paths{""};
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) != hierarchy) continue;
    // A group's limit also applies to the groups below it, so every group on the path is checked.
    for (std::string path = line.substr(second + 1); path.size() > 1; path.resize(path.rfind('/')))
      paths.push_back(path);
  }
  return paths;
}

}  // namespace

std::optional<std::uint64_t> available_host_memory(const std::string& root) {
  std::optional<std::uint64_t> least;
  const auto bound = [&](std::optional<std::uint64_t> bytes) {
    if (bytes) least = std::min(least.value_or(*bytes), *bytes);
  };
  if (const auto kib = number_in(root + "/proc/meminfo", "MemAvailable:")) bound(*kib * 1024);
  for (const std::string& path : groups(root, "")) {
    const std::string group = root + "/sys/fs/cgroup" + path;
    bound(left_in(group + "/memory.max", group + "/memory.current", group + "/memory.stat", "inactive_file"));
  }
  for (const std::string& path : groups(root, "memory")) {
    const std::string group = root + "/sys/fs/cgroup/memory" + path;
    bound(left_in(group + "/memory.limit_in_bytes", group + "/memory.usage_in_bytes", group + "/memory.stat",
                  "total_inactive_file"));
  }
  return least;
}

}  // namespace damacy
