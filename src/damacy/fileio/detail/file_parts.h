// Code shared by all kinds of file requests: checks, defaults, and reporting and counting the outcome of a part.
// Private to layer fileio.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "damacy/fileio/detail/slices.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/operation.h"

namespace damacy::detail {

inline Way way_of(Direction direction) noexcept {
  return direction == Direction::read ? Way::read : Way::write;
}
std::uint64_t task_size_of(std::uint64_t asked) noexcept;  // 0: the process's

// Throw FileError (closed, mode) and Error(inval).
void check_mode(const File& file, Direction direction);
void check_range(std::uint64_t offset, std::uint64_t size);

// Where offset 0 of a request lies in the file.
std::uint64_t base_of(const File& file, Direction direction) noexcept;

// Of a write that ended early without an error.
void fail_short_write(Direction direction, std::uint64_t wanted, RunResult& moved) noexcept;
FileError part_failed(const File& file, Direction direction, std::uint64_t offset, std::uint64_t size,
                      const RunResult& moved);
void count_short_read(File& file) noexcept;

// Counts a part, and how long it took.
class PartClock {
 public:
  explicit PartClock(File& file) noexcept : file_(file) {}
  PartClock(const PartClock&) = delete;
  PartClock& operator=(const PartClock&) = delete;
  ~PartClock();
  void stop_counting() noexcept { counts_ = false; }  // it was no part

 private:
  File& file_;
  bool counts_ = true;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// `bytes` in all; unless `queue`, left to the caller. `is_small`: workers may take several at once.
std::shared_ptr<Operation> begin_operation(std::unique_ptr<IoJob> job, std::uint64_t bytes, bool queue,
                                           bool is_small = false);

}  // namespace damacy::detail
