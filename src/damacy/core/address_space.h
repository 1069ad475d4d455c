// The limit of a process's addresses, as text for errors. A limit makes allocations fail while memory is free.
#pragma once

#include <string>

namespace damacy {

// "; the address space of this process is limited to N bytes (ulimit -v, RLIMIT_AS), of which M are in use: ...". Empty
// without a limit.
[[nodiscard]] std::string address_space_note();

}  // namespace damacy
