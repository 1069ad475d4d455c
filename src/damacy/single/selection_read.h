// One read of selections of stored objects into one piece of memory: a job of its own, with its own end. Every object
// is opened, read, decoded and placed by the same requests as a batch's; there is no batch, no slot and no order. An
// element of the memory is written by one selection only. Knows objects and selections; not who asks, not Python.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/fetch/read_workers.h"
#include "damacy/plan/selection.h"
#include "damacy/store/store.h"
#include "damacy/wave/device_reads.h"
#include "damacy/zarr/array.h"

namespace damacy {

struct SelectedObject {
  std::string key;
  std::vector<AxisRuns> axes;  // one an axis of the array
};

struct SelectionRequest {
  std::shared_ptr<const Array> object;  // an array as large as one stored object
  std::shared_ptr<Store> store;
  bool keeps_indices = false;  // the store's stamps tell versions of an object apart
  std::vector<SelectedObject> items;
  std::array<std::byte, 16> fill{};     // in this machine's byte order
  std::span<std::byte> out;             // what runs count from, and how far they may go
  bool swap_out = false;                // `out` is in the other byte order
  std::shared_ptr<DeviceReads> device;  // `out` is an address there; null: the host's
  std::vector<Event> after;             // on the device, what comes before the first write
};

class SelectionRead : public std::enable_shared_from_this<SelectionRead> {
 public:
  // `ended` is called once, on a thread of the workers', or on the caller's if there is nothing to do. It must not
  // throw. `out` stays until then.
  // `workers` outlive it: a read may end on one of their threads.
  SelectionRead(ReadWorkers& workers, SelectionRequest request, std::function<void()> ended);

  void start();
  // What has not begun is not begun; `ended` is still to come.
  void cancel() noexcept { cancelled_ = true; }

  // After it ended:
  const std::optional<Error>& failure() const noexcept { return failure_; }
  const std::vector<std::uint8_t>& missing() const noexcept { return missing_; }  // by item: no such object

 private:
  friend class ObjectChunks;
  friend class ObjectRead;
  void submit();
  void open_task() noexcept { open_.fetch_add(1); }
  void close_task() noexcept;
  void check_wanted() const;  // throws when it is cancelled, or has failed already
  void fail(const Error& error) noexcept;

  ReadWorkers& workers_;
  SelectionRequest request_;
  std::shared_ptr<ReadMemory> memory_;
  std::atomic<bool> memory_stays_{false};  // storage may still write to some of it
  std::unique_ptr<ReadWaves> waves_;       // to a device
  std::function<void()> ended_;
  std::atomic<std::int64_t> open_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::optional<Error> failure_;
  std::vector<std::uint8_t> missing_;
};

// The coordinates that a chunk key ends in; empty when it does not.
[[nodiscard]] std::optional<Dims> coordinates_in_key(const ArrayMetadata& metadata, std::string_view key);

}  // namespace damacy
