// The waves of single reads into memory of GPUs: one set for each device of the process, made at its first read. Knows
// no read.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "damacy/core/mutex.h"
#include "damacy/fetch/stats.h"
#include "damacy/fetch/stats_board.h"
#include "damacy/wave/device_waves.h"

namespace damacy {

// Any member may be called from any thread.
class ProcessWaves {
 public:
  // They live as long as the process. Throws Error(inval, "no-device").
  std::shared_ptr<DeviceWaves> of_gpu(int index);
  // For tests: a lazy host device, on which every missing wait gives wrong bytes.
  std::shared_ptr<DeviceWaves> of_lazy_host(std::size_t slab);
  Metric copies(bool reset);  // to devices
  void stop() noexcept;       // ends their threads; later reads fail

 private:
  struct Counted {  // waves with what they count
    explicit Counted(DeviceParts parts) : waves(std::move(parts), board) {}
    StatsBoard board;
    DeviceWaves waves;
  };
  Mutex mutex_;
  std::map<int, std::shared_ptr<Counted>> reads_ DAMACY_GUARDED_BY(mutex_);
};

// Never destroyed. A forked child has none of its parent's threads, and so reads of its own.
[[nodiscard]] ProcessWaves& process_waves();

}  // namespace damacy
