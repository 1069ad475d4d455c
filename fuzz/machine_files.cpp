// Files of the system that describe a machine, made of the input: any content gives a machine with at least one core.
#include <cstdlib>
#include <string>
#include <string_view>

#include "damacy/core/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  // Texts between bytes 1: the first is the list of groups, the others are the files that are read, in turns.
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto next = [&] {
    const std::size_t at = input.find('\1');
    std::string part(input.substr(0, at));
    input.remove_prefix(at == std::string_view::npos ? input.size() : at + 1);
    return part;
  };
  damacy::MachineSources sources;
  const std::string groups = next();
  sources.read = [&](const std::string& path) { return path == "/proc/self/cgroup" ? groups : next(); };
  sources.variable = [&](const char*) { return next(); };
  sources.mask_cores = 16;
  sources.addresses = [] { return std::nullopt; };
  const damacy::Machine machine = damacy::read_machine(sources);
  if (machine.cores < 1 || machine.cores > 16 || machine.rank_cores < 1 || machine.rank_cores > 16) std::abort();
  if (machine.ranks < 1 || machine.why_cores.empty() || machine.why_memory.empty()) std::abort();
  return 0;
}
