// The limit of a process's addresses, as numbers and as text for errors. A limit makes allocations fail while memory is
// free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace damacy {

struct AddressSpace {
  std::uint64_t limit = 0;   // bytes (ulimit -v, RLIMIT_AS)
  std::uint64_t in_use = 0;  // bytes; 0 if not known
};

// Empty without a limit.
[[nodiscard]] std::optional<AddressSpace> address_space();

// "; the address space of this process is limited to N bytes (ulimit -v, RLIMIT_AS), of which M are in use: ...". Empty
// without a limit.
[[nodiscard]] std::string address_space_note();

}  // namespace damacy
