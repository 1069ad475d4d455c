#include "damacy/core/address_space.h"

#include <cstdlib>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "damacy/core/formatted.h"

namespace damacy {
namespace {

// 0: not known.
std::uint64_t mapped_bytes() noexcept {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char line[128] = {};
  const ssize_t got = ::read(fd, line, sizeof line - 1);
  ::close(fd);
  return got <= 0 ? 0 : std::strtoull(line, nullptr, 10) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::optional<AddressSpace> address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return AddressSpace{limit.rlim_cur, mapped_bytes()};
}

std::string address_space_note() {
  const auto limited = address_space();
  if (!limited) return {};
  return formatted(
      "; the address space of this process is limited to {} bytes (ulimit -v, RLIMIT_AS), of which {} are in use: raise the limit, or ask for less",
      limited->limit, limited->in_use);
}

}  // namespace damacy
