// Single reads into the memory of one device: all of them share its waves, and a thread that forms these. Knows wanted
// chunks; not what wants them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/wave/device_waves.h"

namespace damacy {

class DeviceReads {
 public:
  explicit DeviceReads(DeviceParts parts);
  ~DeviceReads() { stop(); }
  DeviceReads(const DeviceReads&) = delete;
  DeviceReads& operator=(const DeviceReads&) = delete;

  // Chunks of one read, located; they are read by `readers` and placed later. Reads that come together share waves. Any
  // thread; waits for nothing. After stop() they fail.
  void add(std::vector<std::shared_ptr<WantedChunks>> chunks, Readers& readers, DecodeMemory memory);
  // Fails reads that wait and, once `readers` have stopped, finishes those that were read. Idempotent.
  void stop() noexcept;

  struct Counters {
    std::int64_t h2d_bytes = 0, h2d_copies = 0;
  };
  Counters counters(bool reset);
  Device& device() const noexcept { return waves_.device(); }

 private:
  struct Read {
    std::vector<std::shared_ptr<WantedChunks>> chunks;
    std::vector<Task<Job>> tasks;  // until it is formed
    Readers* readers;
    DecodeMemory memory;
    void fail(const Error& why) noexcept;
  };
  std::optional<Read> take_first() noexcept DAMACY_REQUIRES(mutex_);
  void form_all();
  void form(Read& read) noexcept;

  StatsBoard board_;
  DeviceWaves waves_;
  std::stop_source stop_;
  Mutex mutex_;
  StoppableCondition changed_;
  std::deque<Read> waiting_ DAMACY_GUARDED_BY(mutex_);
  bool stopped_ DAMACY_GUARDED_BY(mutex_) = false;
  Thread former_;  // last: uses all of the above
};

// The sizes of the above on a machine: parts of the memory that is free on its GPU and host, within bounds.
[[nodiscard]] MemoryPlan plan_device_reads(const Machine& machine);

}  // namespace damacy
