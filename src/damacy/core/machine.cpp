#include "damacy/core/machine.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <sys/resource.h>
#include <unistd.h>

#include "damacy/core/cores.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

constexpr std::uint64_t kKib = 1024;

std::string variable_of_process(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The number that `text` begins with, as Slurm writes "4(x2),3".
std::optional<std::uint64_t> first_number(std::string_view text) {
  return decimal_of(text.substr(0, text.find_first_not_of("0123456789")));
}

// LOCAL_WORLD_SIZE, else the tasks of a Slurm step on a node, else 1. A shell in an allocation is one process, however
// many tasks were granted.
std::size_t ranks_here(const MachineSources& sources) {
  if (const auto ranks = decimal_of(sources.variable("LOCAL_WORLD_SIZE")); ranks && *ranks > 0) return *ranks;
  if (sources.variable("SLURM_STEP_ID").empty()) return 1;
  std::string tasks = sources.variable("SLURM_STEP_TASKS_PER_NODE");
  if (tasks.empty()) tasks = sources.variable("SLURM_NTASKS_PER_NODE");
  return std::max<std::uint64_t>(1, first_number(tasks).value_or(1));
}

std::optional<std::size_t> rank_here(const MachineSources& sources) {
  const char* const name = sources.variable("LOCAL_WORLD_SIZE").empty() ? "SLURM_LOCALID" : "LOCAL_RANK";
  return decimal_of(sources.variable(name));
}

// A Slurm step that binds tasks to cores gives each rank a mask of its own.
bool has_own_mask(const MachineSources& sources) {
  const std::string bound = sources.variable("SLURM_CPU_BIND_TYPE");
  return bound.starts_with("mask_cpu") || bound.starts_with("map_cpu") || bound.starts_with("rank");
}

void find_cores(Machine& machine, const MachineSources& sources) {
  const std::size_t mask = std::max<std::size_t>(1, sources.mask_cores ? *sources.mask_cores : affinity_cores());
  const bool own_mask = has_own_mask(sources);
  const auto quota = cpu_quota(sources.read);
  machine.ranks = ranks_here(sources);
  if (!own_mask) machine.rank = rank_here(sources);
  machine.cores = quota ? std::min(mask, whole_cores(*quota)) : mask;
  machine.rank_cores = own_mask ? mask : mask / machine.ranks;
  machine.why_cores = formatted("{} cores in the affinity mask", mask);
  bool by_quota = false;
  if (quota) {
    const double share = *quota / static_cast<double>(machine.ranks);
    by_quota = share < static_cast<double>(machine.rank_cores);
    if (by_quota) {
      machine.rank_cores = whole_cores(share);
      machine.why_cores = formatted("a cgroup's quota of {} cores", *quota);
    }
  }
  machine.rank_cores = std::max<std::size_t>(1, machine.rank_cores);
  if (machine.ranks > 1)
    machine.why_cores +=
        own_mask && !by_quota ? ", the mask of one rank" : formatted(", shared by {} ranks", machine.ranks);
}

// The number in "MemAvailable:    1000 kB", in bytes.
std::optional<std::uint64_t> available_bytes(const ReadText& read) {
  constexpr std::string_view kName = "MemAvailable:";
  const std::string text = read("/proc/meminfo");
  for (std::string_view lines = text; !lines.empty();) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (!line.starts_with(kName)) continue;
    const auto kib = decimal_of(line.substr(kName.size(), line.find("kB") - kName.size()));
    return kib && *kib < ~std::uint64_t{0} / kKib ? std::optional(*kib * kKib) : std::nullopt;
  }
  return std::nullopt;
}

void find_memory(Machine& machine, const MachineSources& sources) {
  const auto bound = [&](std::optional<std::uint64_t> bytes, const char* why) {
    if (!bytes || (machine.host_bytes && *machine.host_bytes <= *bytes)) return;
    machine.host_bytes = *bytes;
    machine.why_memory = why;
  };
  const auto shared = [&](std::optional<std::uint64_t> bytes) {
    return bytes ? std::optional(*bytes / machine.ranks) : std::nullopt;
  };
  machine.why_memory = "unknown";
  bound(shared(available_bytes(sources.read)), "free on the host");
  bound(shared(memory_left(sources.read)), "free in the cgroup");
  machine.addresses = sources.addresses();
  if (const auto& limited = machine.addresses)
    bound(limited->limit - std::min(limited->limit, limited->in_use), "left of the address-space limit (ulimit -v)");
  const auto pages = static_cast<std::uint64_t>(std::max<long>(0, ::sysconf(_SC_PHYS_PAGES)));
  machine.physical_bytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Machine read_machine(const MachineSources& sources) {
  MachineSources from = sources;
  if (!from.variable) from.variable = variable_of_process;
  Machine machine;
  find_cores(machine, from);
  find_memory(machine, from);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) machine.open_files = files.rlim_cur;
  return machine;
}

}  // namespace damacy
