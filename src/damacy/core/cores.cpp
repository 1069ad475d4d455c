#include "damacy/core/cores.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <thread>

#include <sched.h>

#include "damacy/core/control_groups.h"

namespace damacy {
namespace {

constexpr int kMostCores = 1 << 20;

// Cores of the mask if it has at most `most`; else 0.
int mask_of(int most) noexcept {
  cpu_set_t* const mask = CPU_ALLOC(static_cast<std::size_t>(most));
  if (mask == nullptr) return 0;
  const std::size_t bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, mask);
  const int cores = sched_getaffinity(0, bytes, mask) == 0 ? CPU_COUNT_S(bytes, mask) : 0;
  CPU_FREE(mask);
  return cores;
}

}  // namespace

std::size_t affinity_cores() noexcept {
  for (int most = CPU_SETSIZE; most <= kMostCores; most *= 4)
    if (const int cores = mask_of(most); cores > 0) return static_cast<std::size_t>(cores);
  return std::max(1u, std::thread::hardware_concurrency());
}

std::size_t whole_cores(double quota) noexcept {
  return static_cast<std::size_t>(std::clamp(std::ceil(quota), 1.0, double{kMostCores}));
}

std::size_t usable_cores() noexcept {
  const std::size_t mask = affinity_cores();
  try {
    const auto quota = cpu_quota(files_below(""));
    return quota ? std::min(mask, whole_cores(*quota)) : mask;
  } catch (const std::exception&) {  // no memory to read files with
    return mask;
  }
}

}  // namespace damacy
