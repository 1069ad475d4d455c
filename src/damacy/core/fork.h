// Tells a forked child from its parent without touching a lock: what was made before a fork must not be used after it.
#pragma once

#include <cstdint>

namespace damacy {

// How many forks lie between the first call in this line of processes and now; a child differs from its parent.
[[nodiscard]] std::uint64_t fork_epoch() noexcept;

}  // namespace damacy
