// The shared state of the reads of one selection: the request, the threads and memory, and the outcome. The end of
// the last task settles it. Knows objects and selections; not how an object is read.
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

#include "damacy/cache/chunk_tier.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/core/task.h"
#include "damacy/device/device.h"
#include "damacy/plan/destination.h"
#include "damacy/plan/selection.h"
#include "damacy/single/selection_readers.h"
#include "damacy/store/store.h"
#include "damacy/wave/device_waves.h"
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
  bool keeps_indices = false;        // the store's stamps distinguish versions of an object
  std::shared_ptr<ChunkTier> cache;  // of decoded chunks, if it keeps indices; unused with a device. Null: none
  std::vector<SelectedObject> items;
  std::array<std::byte, 16> fill{};  // in this machine's byte order
  std::span<std::byte> out;          // the memory that is written; runs count from its begin
  bool swap_out = false;             // `out` is in the other byte order
  std::optional<Dtype> as;           // elements are converted to it, without swap_out; empty: they keep their bits
  DeviceWaves* device = nullptr;     // outlives the read; `out` is an address there. Null: the host's
  std::vector<Event> after;          // on the device, what comes before the first write
};

class SelectionJob final : public Job, public Destination {
 public:
  SelectionJob(SelectionReaders& with, SelectionRequest what, std::function<void()> then);

  void cancel() noexcept { cancelled_ = true; }
  const std::atomic<bool>& cancelled() const noexcept { return cancelled_; }
  void check_wanted() const;  // throws when it is cancelled, or has failed already
  void fail(const Error& error) noexcept;
  // After the end.
  std::optional<Error> failure() const noexcept {
    const Lock lock(mutex_);
    return failure_;
  }

  std::span<const Event> claim() override { return request.after; }
  // Begins up to 255 bytes before `out`, to be aligned; only `out` is written.
  std::span<std::byte> memory() const noexcept override {
    return {request.out.data() - out_begin(), request.out.size() + static_cast<std::size_t>(out_begin())};
  }
  // Where `out` begins in memory().
  std::int64_t out_begin() const noexcept { return reinterpret_cast<std::uintptr_t>(request.out.data()) % kAlignment; }
  void placed(std::uint32_t, std::int64_t) noexcept override {}

  static constexpr std::int64_t kAlignment = 256;  // of memory of devices
  SelectionReaders& readers;
  SelectionRequest request;
  DecodeMemory memory_of_readers() const;
  std::vector<std::uint8_t> missing;  // by item

 private:
  void settle() noexcept override;

  std::shared_ptr<ReadMemory> memory_;
  std::function<void()> ended_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  std::optional<Error> failure_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
