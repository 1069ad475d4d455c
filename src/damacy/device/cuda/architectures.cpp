// The rules: a cubin runs on its capability and on later ones of the same major version; PTX is compiled by the driver
// for any later GPU, if the driver is not older than the toolkit that wrote it.
#include "damacy/device/cuda/architectures.h"

#include <algorithm>
#include <charconv>

#include <cuda.h>

#include "damacy/core/formatted.h"

namespace damacy::cuda {
namespace {

// The kernels were written for it and later ones, and are compiled for none before.
constexpr int kOldestCapability = 75;

bool covers(const Target& target, int capability) {
  if (target.reach == Target::Reach::only) return capability == target.capability;
  return capability / 10 == target.capability / 10 && capability >= target.capability;
}

bool compiles_to(const Target& ptx, int capability) {
  return ptx.reach == Target::Reach::later ? capability >= ptx.capability : covers(ptx, capability);
}

std::string capability_text(int capability) {
  return formatted("{}.{}", capability / 10, capability % 10);
}

std::string listed(const std::vector<Target>& targets) {
  std::string list;
  for (const Target& target : targets) list += (list.empty() ? "" : ", ") + capability_text(target.capability);
  return list;
}

std::string what_there_is(const BuiltKernels& kernels) {
  std::string there_is = formatted("kernels for {}", listed(kernels.cubins));
  if (kernels.ptx.empty()) return there_is;
  return formatted("{}{}by a driver for CUDA {} or newer, for GPUs from {} on", there_is,
                   kernels.cubins.empty() ? "" : " and, ", version_text(kernels.toolkit), listed(kernels.ptx));
}

}  // namespace

std::string build_text(const BuiltKernels& kernels) {
  return formatted("CUDA {}, for drivers for CUDA {} or newer: {}", version_text(kernels.toolkit),
                   version_text(kernels.oldest_driver), what_there_is(kernels));
}

std::string version_text(int version) {
  return formatted("{}.{}", version / 1000, version % 1000 / 10);
}

BuiltKernels BuiltKernels::of(std::string_view architectures, int toolkit) {
  BuiltKernels kernels{.cubins = {}, .ptx = {}, .toolkit = toolkit, .oldest_driver = toolkit / 1000 * 1000};
  while (!architectures.empty()) {
    const std::string_view word = architectures.substr(0, architectures.find_first_of(";,"));
    architectures.remove_prefix(std::min(word.size() + 1, architectures.size()));
    Target target;
    const auto end = std::from_chars(word.data(), word.data() + word.size(), target.capability).ptr;
    if (target.capability == 0) continue;
    std::string_view suffix = word.substr(static_cast<std::size_t>(end - word.data()));
    if (suffix.starts_with('a')) target.reach = Target::Reach::only;
    if (suffix.starts_with('f')) target.reach = Target::Reach::family;
    if (suffix.starts_with('a') || suffix.starts_with('f')) suffix.remove_prefix(1);
    if (suffix != "-virtual") kernels.cubins.push_back(target);
    if (suffix != "-real") kernels.ptx.push_back(target);
  }
  return kernels;
}

const BuiltKernels& built_kernels() {
  static const auto* one = new BuiltKernels(BuiltKernels::of(DAMACY_CUDA_KERNELS, CUDA_VERSION));
  return *one;
}

std::string why_no_kernels(const BuiltKernels& kernels, int capability, int driver) {
  if (std::any_of(kernels.cubins.begin(), kernels.cubins.end(), [&](const Target& t) { return covers(t, capability); }))
    return {};
  const bool compiled =
      std::any_of(kernels.ptx.begin(), kernels.ptx.end(), [&](const Target& t) { return compiles_to(t, capability); });
  if (compiled && driver >= kernels.toolkit) return {};
  const std::string there_is = formatted("this build has {}", what_there_is(kernels));
  if (compiled)
    return formatted("{}, and this driver is for CUDA {}: update the driver", there_is, version_text(driver));
  if (capability < kOldestCapability)
    return formatted("{}, and there are none for GPUs before {}", there_is, capability_text(kOldestCapability));
  return formatted("{}: install a wheel with kernels for {}, or build one with DAMACY_CUDA_ARCHS={}-real", there_is,
                   capability_text(capability), capability);
}

}  // namespace damacy::cuda
