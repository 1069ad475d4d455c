// What one thread counts of the parts of a batch of small reads, added to the counters of the file and of the process
// once. Knows counters; not parts.
#pragma once

#include <array>
#include <cstdint>

#include "damacy/core/file_transfer.h"
#include "damacy/fileio/file.h"

namespace damacy::detail {

// While one lives, it takes what its thread counts of reads and of the time of parts. Its destructor adds the counts:
// leave the parts afterwards.
class CountBatch {
 public:
  CountBatch() noexcept;
  ~CountBatch();
  CountBatch(const CountBatch&) = delete;
  CountBatch& operator=(const CountBatch&) = delete;
  static CountBatch*& current() noexcept;  // of the thread; null: none

  // `file` stays open until the batch has ended.
  void read(File& file, IoWay way, const Moved& moved) noexcept;
  void part_took(File& file, std::uint64_t microseconds) noexcept;

 private:
  struct Counts {
    std::array<Moved, kIoWays> reads{};
    std::uint64_t parts = 0;
    std::array<std::uint64_t, IoCounters::kTimes> part_us_log2{};
  };
  void of(File& file) noexcept;  // what follows is of that file
  void add() noexcept;

  CountBatch* const before_;
  File* file_ = nullptr;
  Counts counts_;
};

}  // namespace damacy::detail
