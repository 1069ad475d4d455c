// Names a process of this machine in one word: its number and when it started, so that a process that gets the number
// of a dead one has another name. Valid among processes that see the same process numbers. Reads /proc.
#pragma once

#include <cstdint>

namespace damacy {

using ProcessId = std::uint64_t;  // 0: none

[[nodiscard]] ProcessId this_process() noexcept;
// False only if the process has ended. A zombie has: it runs no code.
[[nodiscard]] bool is_alive(ProcessId process) noexcept;
[[nodiscard]] int number_of(ProcessId process) noexcept;  // a pid

}  // namespace damacy
