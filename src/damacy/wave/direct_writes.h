// Writes to memory of a device that are complete on return, in the order of a stream of their own: rows of settled
// batches, crops of readers, placements without an image, and chunks that the device could not decode. Any thread,
// unless a function says otherwise. Knows chunks of a wave; not the steps that a wave takes.
#pragma once

#include <memory>
#include <span>

#include "damacy/batch/batch_job.h"
#include "damacy/copy/placement.h"
#include "damacy/core/mutex.h"
#include "damacy/device/arena.h"
#include "damacy/device/device.h"
#include "damacy/wave/wave.h"

namespace damacy {

// Waits for all that is enqueued, also if it fails.
void wait_for_all(Stream& stream) noexcept;
[[nodiscard]] std::uint64_t address_of(const Destination& destination);

class DirectWrites final : public RowWriter {
 public:
  // `packed` and `decoded`: host memory for chunks that the device gave up.
  DirectWrites(Device& device, Copier& copier, Arena& packed, Arena& decoded);

  void copy(std::span<std::byte> to, std::span<const std::byte> from);
  // A few at a time. They begin after `first` and `others`.
  void place(const PlacementList& all, const Event& first, std::span<const Event> others = {});
  // Decodes a chunk of a wave and places it. By one thread.
  void decode_on_host(Wave& wave, StagedChunk& chunk);
  void wait() noexcept;  // for what failed half way

  // Of a batch that no wave writes any more.
  void fill_part(BatchJob& job, std::size_t part) override;
  void move_row(std::span<std::byte> to, std::span<const std::byte> from) override { copy(to, from); }

 private:
  void repair(Wave& wave, StagedChunk& chunk, std::span<std::byte> encoded, std::span<std::byte> decoded);
  // What they read is the caller's until they are placed: so the lock, too.
  void place_now(const PlacementList& all) DAMACY_REQUIRES(mutex_);

  Copier& copier_;
  Arena &packed_, &decoded_;
  Mutex mutex_;
  std::unique_ptr<Stream> stream_ DAMACY_GUARDED_BY(mutex_);
  HostBuffer pinned_ DAMACY_GUARDED_BY(mutex_);
  HostBuffer device_ DAMACY_GUARDED_BY(mutex_);
  DecodeContext context_;  // of the thread that decodes
};

}  // namespace damacy
