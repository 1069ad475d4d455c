// The shared state of the reads of one selection: the request, the threads and memory, and the outcome. The last task
// to close ends the job. Knows objects and selections; not how an object is read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/core/task.h"
#include "damacy/device/device.h"
#include "damacy/fetch/read_workers.h"
#include "damacy/plan/selection.h"
#include "damacy/store/store.h"
#include "damacy/wave/device_reads.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

struct SelectedObject {
  std::string key;
  std::vector<AxisRuns> axes;  // one an axis of the array
};

struct SelectionRequest {
  std::shared_ptr<const Array> object;  // an array as large as one stored object
  std::shared_ptr<Store> store;
  bool keeps_indices = false;  // the store's stamps distinguish versions of an object
  std::vector<SelectedObject> items;
  std::array<std::byte, 16> fill{};     // in this machine's byte order
  std::span<std::byte> out;             // what runs count from, and how far they may go
  bool swap_out = false;                // `out` is in the other byte order
  std::shared_ptr<DeviceReads> device;  // `out` is an address there; null: the host's
  std::vector<Event> after;             // on the device, what comes before the first write
};

class SelectionJob final : public Job {
 public:
  SelectionJob(ReadWorkers& with, SelectionRequest what, std::function<void()> then);

  void cancel() noexcept { cancelled_ = true; }
  void check_wanted() const;  // throws when it is cancelled, or has failed already
  void fail(const Error& error) noexcept;
  // After the end.
  const std::optional<Error>& failure() const noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS { return failure_; }

  ReadWorkers& workers;
  SelectionRequest request;
  std::shared_ptr<ReadMemory> memory;
  std::atomic<bool> memory_stays{false};  // storage may still write to some of it
  std::unique_ptr<ReadWaves> waves;       // to a device
  std::vector<std::uint8_t> missing;      // by item

 private:
  void settle() noexcept override;

  std::function<void()> ended_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  std::optional<Error> failure_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
