// One run of consecutive file bytes with the memory of each part, transferred at once by the best method.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "damacy/core/file_transfer.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"

namespace damacy {
class Operation;
}

namespace damacy::detail {

struct Slice {
  std::byte* data = nullptr;  // null: a gap whose bytes are not needed
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

// Vectors of host memory; gaps lead to a scrap of memory of the calling thread's.
std::vector<iovec> vectors_of(std::span<const Slice> slices);

// Host memory only.
RunResult move_host(File& file, Way way, std::uint64_t offset, std::span<const Slice> slices, IoWay as);

// Whether reads of this total size use the calling thread's ring: if the engine setting says so, and by default for
// bulk reads. Buffered reads only.
bool reads_by_ring(const File& file, std::uint64_t request_bytes);
// The same as move_host for reads, many pieces under way at once; where there is no ring, by plain calls.
RunResult read_by_ring(File& file, std::uint64_t offset, std::span<const Slice> slices);

// Runs of one file, to or from memory of one device, through a pinned block. Sets their results, and reports the copies
// to `operation`. Ends at the first run that fails.
struct DeviceRun {
  std::uint64_t offset = 0;
  std::span<const Slice> slices;
  RunResult result = {};
};
void move_staged(File& file, Way way, std::span<DeviceRun> runs, Operation& operation);

// Whether device requests of that file use cuFile, which the first of them decides. Throws FileError.
bool goes_by_cufile(File& file);
// One stretch of device memory; done on return. Throws FileError.
RunResult move_by_cufile(File& file, Way way, std::uint64_t offset, const Slice& slice);

void count_moved(File& file, IoWay way, Way direction, const Moved& moved);

}  // namespace damacy::detail
