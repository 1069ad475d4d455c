// Moving bytes to the end: system calls that stop short, are interrupted or ask to come again go on. Knows errno and
// the kernel's limits of one call; not files.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>
#include <sys/uio.h>

#include "damacy/core/file_calls.h"

namespace damacy::detail {

constexpr std::uint64_t kBytesPerCall = (std::uint64_t{1} << 31) - 4096;  // the kernel moves no more at once
constexpr int kAgainPauses = 60'000;                                      // of 1 ms: one operation ends after 60 s

struct Moved {
  std::uint64_t bytes = 0;
  int error = 0;  // errno, with what was moved before
  std::uint32_t calls = 0;
  std::uint32_t retries = 0;
};

// `move(done)` is one system call that goes on after `done` bytes. Ends when all `size` are moved, at 0 (end of file),
// or with an error.
template <class Move>
void move_on(FileCalls& calls, std::uint64_t size, Moved& moved, Move move) {
  for (int pauses = 0; moved.bytes < size;) {
    const ssize_t n = move(moved.bytes);
    ++moved.calls;
    if (n == 0) return;
    if (n > 0) {
      moved.bytes += static_cast<std::uint64_t>(n);
      continue;
    }
    if (errno == EAGAIN && pauses < kAgainPauses) {
      ++pauses;
      calls.pause(1);
    } else if (errno != EINTR) {
      moved.error = errno;
      return;
    }
    ++moved.retries;
  }
}

enum class Way { read, write };

// Consecutive bytes of a file from `offset`, to or from the vectors in turn.
Moved move_vectors(FileCalls& calls, int fd, Way way, std::span<const iovec> vectors, std::uint64_t offset);

}  // namespace damacy::detail
