// One run of consecutive file bytes, and the memory of each stretch of it: moved in one go, by the way that fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "damacy/io/detail/transfer.h"
#include "damacy/io/file.h"
#include "damacy/io/file_memory.h"

namespace damacy {
class Operation;
}

namespace damacy::detail {

struct Slice {
  std::byte* data = nullptr;  // null: a gap whose bytes nobody wants
  std::uint64_t size = 0;
  OnDevice* device = nullptr;
};

// Moves up to all bytes of the slices; counts them with the file and the process. Throws Error(cuda) only.
struct RunResult {
  std::uint64_t bytes = 0;
  int error = 0;
  IoWay way = IoWay::pread;
};
RunResult move_run(File& file, Way way, std::uint64_t offset, std::span<const Slice> slices, Operation& operation);

// Host memory only.
RunResult move_host(File& file, Way way, std::uint64_t offset, std::span<const Slice> slices, IoWay as);

// Up to `size` bytes to or from device memory through pinned blocks; the copies are told to `operation`.
RunResult move_staged(File& file, Way way, std::uint64_t offset, std::span<const Slice> slices, Operation& operation);

void count_moved(File& file, IoWay way, Way direction, const Moved& moved);

}  // namespace damacy::detail
