#include "damacy/core/cores.h"

#include <algorithm>
#include <thread>

#include <sched.h>

namespace damacy {

std::size_t usable_cores() noexcept {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // Fails on machines of more than 1024 cores, whose mask is longer.
  if (sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) > 0)
    return static_cast<std::size_t>(CPU_COUNT(&mask));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace damacy
