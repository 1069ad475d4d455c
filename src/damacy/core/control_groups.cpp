#include "damacy/core/control_groups.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <utility>

#include "damacy/core/text.h"

namespace damacy {
namespace {

constexpr std::size_t kMostText = 64 << 10;
constexpr std::size_t kMostPath = 4096;                     // a longer one names no group
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;  // version 1 writes a huge number for no limit

constexpr std::string_view kMounts = "/sys/fs/cgroup";

// The part of `text` before `end`, which is removed with it; all of it if there is no `end`.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

bool has_word(std::string_view words, std::string_view wanted) {
  while (!words.empty())
    if (take_until(words, ',') == wanted) return true;
  return false;
}

// `top` and every folder below it on the way to `path`. A path that leads out of the top is the host's: inside a
// container only the top is there.
void add_folders(std::vector<std::string>& folders, std::string top, std::string_view path) {
  folders.push_back(top);
  if (path.size() > kMostPath) return;
  while (!path.empty()) {
    const std::string_view part = take_until(path, '/');
    if (part.empty() || part == "." || part == "..") continue;
    top.append("/").append(part);
    folders.push_back(top);
  }
}

std::optional<std::uint64_t> positive(std::string_view text) {
  const auto number = decimal_of(text);
  return number == 0 ? std::nullopt : number;
}

// The number behind `name` in lines of a name and a number.
std::optional<std::uint64_t> number_of(std::string_view lines, std::string_view name) {
  while (!lines.empty()) {
    std::string_view line = take_until(lines, '\n');
    if (take_until(line, ' ') == name) return decimal_of(line);
  }
  return std::nullopt;
}

// Of the group and those below it, in both versions.
std::uint64_t file_pages(std::string_view stat) {
  std::uint64_t bytes = 0;
  for (const auto& [total, own] :
       {std::pair{"total_inactive_file", "inactive_file"}, std::pair{"total_active_file", "active_file"}}) {
    const auto of_all = number_of(stat, total);
    bytes += of_all ? *of_all : number_of(stat, own).value_or(0);
  }
  return bytes;
}

}  // namespace

ReadText files_below(std::string root) {
  return [root = std::move(root)](const std::string& path) {
    std::ifstream file(root + path, std::ios::binary);
    std::string text(kMostText, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
  };
}

std::optional<std::uint64_t> decimal_of(std::string_view text) {
  text = trimmed(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number >> 63 != 0) return std::nullopt;
  return number;
}

std::vector<std::string> group_folders(const ReadText& read, std::string_view controller) {
  const std::string mounts(kMounts);
  std::vector<std::string> folders{mounts, mounts + "/" + std::string(controller)};
  const std::string groups = read("/proc/self/cgroup");
  for (std::string_view lines = groups; !lines.empty();) {
    std::string_view path = take_until(lines, '\n');
    const std::string_view number = take_until(path, ':');
    const std::string_view names = take_until(path, ':');
    if (number == "0" && names.empty()) {  // version 2
      add_folders(folders, mounts, path);
    } else if (has_word(names, controller)) {
      // One mount of several controllers ("cpu,cpuacct"), often with a link for each.
      add_folders(folders, mounts + "/" + std::string(names), path);
      if (names != controller) add_folders(folders, mounts + "/" + std::string(controller), path);
    }
  }
  std::ranges::sort(folders);
  const auto same = std::ranges::unique(folders);
  folders.erase(same.begin(), same.end());
  return folders;
}

std::optional<double> cpu_quota(const ReadText& read) {
  std::optional<double> least;
  const auto add = [&](std::string_view quota, std::string_view period) {
    const auto time = positive(quota);
    const auto of = positive(period);
    if (!time || !of) return;
    const double cores = static_cast<double>(*time) / static_cast<double>(*of);
    least = std::min(least.value_or(cores), cores);
  };
  for (const std::string& folder : group_folders(read, "cpu")) {
    const std::string both = read(folder + "/cpu.max");  // "400000 100000" or "max 100000"
    std::string_view period = both;
    const std::string_view quota = take_until(period, ' ');
    if (both.empty())
      add(read(folder + "/cpu.cfs_quota_us"), read(folder + "/cpu.cfs_period_us"));
    else
      add(quota, period);
  }
  return least;
}

std::optional<std::uint64_t> memory_left(const ReadText& read) {
  constexpr std::array kFiles{std::pair{"/memory.max", "/memory.current"},
                              std::pair{"/memory.limit_in_bytes", "/memory.usage_in_bytes"}};
  std::optional<std::uint64_t> least;
  for (const std::string& folder : group_folders(read, "memory")) {
    for (const auto& [limit, used] : kFiles) {
      const auto most = decimal_of(read(folder + limit));
      if (!most || *most >= kNoLimit) continue;
      const std::uint64_t taken = decimal_of(read(folder + used)).value_or(0);
      const std::uint64_t held = taken - std::min(taken, file_pages(read(folder + "/memory.stat")));
      const std::uint64_t left = *most - std::min(*most, held);
      least = std::min(least.value_or(left), left);
    }
  }
  return least;
}

}  // namespace damacy
