// What selection reads share: the threads that read, decode and place, their memory, the cache of shard indices, and
// counters. Knows no selection.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/device/arena.h"
#include "damacy/fetch/readers.h"
#include "damacy/fetch/stats_board.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/index_cache.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// Packed and decoded bytes on their way; borrowed piece by piece.
struct ReadMemory {
  ReadMemory(std::size_t staging_bytes, std::size_t scratch_bytes);
  Arena staging;
  Arena scratch;
};

struct ReadCounters {
  std::atomic<std::int64_t> reads{0}, items{0}, chunks_decoded{0}, chunks_missing{0}, stored_bytes{0}, decoded_bytes{0},
      index_hits{0}, index_misses{0}, cache_hits{0}, cache_misses{0};
  void reset() noexcept;
};

[[nodiscard]] std::int64_t system_ns();  // the system's time, in the unit of Stamp::modified_ns

class SelectionReaders {
 public:
  SelectionReaders(std::size_t threads, IndexCache indices,
                   const std::shared_ptr<const Clock>& clock = std::make_shared<SteadyClock>());

  Readers& threads() noexcept { return readers_; }
  // For `at_once` chunks at a time, or one a thread: the shared memory or, for arrays with big chunks, separate memory
  // that its last user frees. If hung reads hold too much of the shared memory, it is left to them and replaced by new
  // memory.
  std::shared_ptr<ReadMemory> memory_for(const Array& array, std::size_t at_once = 4);
  IndexCache& indices() noexcept { return indices_; }
  // The index of a stored shard, from the cache or from the object. `name`: of the object, in all stores. Counted.
  ShardIndex index_of(const Array& array, Object& object, const std::string& name);
  ReadCounters& counters() noexcept { return counters_; }
  StatsBoard& board() noexcept { return board_; }

 private:
  Mutex memory_mutex_;
  std::shared_ptr<ReadMemory> memory_ DAMACY_GUARDED_BY(memory_mutex_);
  IndexCache indices_;
  ReadCounters counters_;
  StatsBoard board_;
  Readers readers_;  // last: its threads use all of the above
};

}  // namespace damacy
