// Exact counters of file I/O: by engine, direction and file, and for the process. Counting is lock-free.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace damacy {

enum class IoWay : std::size_t { inline_, pread, io_uring, direct, staging, cufile };
constexpr std::size_t kIoWays = 6;
constexpr std::array<const char*, kIoWays> kIoWayNames{"inline", "pread", "io_uring", "direct", "staging", "cufile"};

struct IoCounters {
  using Count = std::atomic<std::uint64_t>;
  struct Traffic {
    Count bytes{0}, calls{0};
  };

  std::array<std::array<Traffic, 2>, kIoWays> traffic;  // [way][0: read, 1: write]
  Count parts{0};
  Count short_reads{0};
  Count retries{0};
  Count resident_bytes{0};  // reads that were tried without waiting and found their bytes in the page cache
  Count cold_bytes{0};      // ... and did not
  Count copies{0};
  Count copy_batches{0};
  Count host_waits{0};                   // for a device
  Count pinned_bytes{0};                 // held now
  std::array<Count, 40> part_us_log2{};  // parts that took [2^(i-1), 2^i) microseconds

  static void add(Count& count, std::uint64_t n) noexcept { count.fetch_add(n, std::memory_order_relaxed); }

  void moved(IoWay way, bool writing, std::uint64_t bytes, std::uint64_t calls) noexcept {
    Traffic& t = traffic[static_cast<std::size_t>(way)][writing ? 1 : 0];
    add(t.bytes, bytes);
    add(t.calls, calls);
  }
  void part_took(std::uint64_t microseconds) noexcept {
    add(parts, 1);
    add(part_us_log2[static_cast<std::size_t>(std::bit_width(microseconds)) % part_us_log2.size()], 1);
  }
};

IoCounters& process_counters() noexcept;

}  // namespace damacy
