// Makes the start of a thread fail on purpose, in the executable that links failing_threads.cpp.
#pragma once

#include <cstdint>

namespace damacy::testing {

// The n-th thread to be started from here on (from 1) is not; 0: all are. `for_ever`: nor any behind it.
void fail_thread_start(std::uint64_t n, bool for_ever) noexcept;
[[nodiscard]] bool thread_start_failed() noexcept;

}  // namespace damacy::testing
