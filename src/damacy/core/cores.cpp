#include "damacy/core/cores.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <thread>

#include "damacy/core/control_groups.h"
#include "damacy/core/rank_cores.h"

namespace damacy {
namespace {

constexpr int kMostCores = 1 << 20;

}  // namespace

std::size_t affinity_cores() noexcept {
  try {
    if (const std::size_t cores = allowed_cores().size(); cores > 0) return cores;
  } catch (const std::bad_alloc&) {  // no memory to list them in
  }
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
