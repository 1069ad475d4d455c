// Placements: copies of boxes from decoded chunks to rows of batches, many at once, in stream order. The elements of a
// chunk may still be shuffled by blosc: un-shuffling, byte order, strides and casts are one gather. Knows addresses,
// strides and layouts; not arrays. The host copier is the specification. Contract: tests/conformance/copier_suite.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "damacy/copy/block_copy.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/device/fenced_memory.h"

namespace damacy {

// The layout of a decoded chunk: element by element, or in blocks that were shuffled separately (blosc's filters: T
// planes of m bytes and an unshuffled tail; bits: plane b of byte k holds bit b of all elements).
struct ChunkLayout {
  enum class Shuffle : std::uint8_t { none, bytes, bits };
  Shuffle shuffle = Shuffle::none;
  std::uint8_t typesize = 1;      // T
  std::uint32_t block_bytes = 0;  // of every block but the last, which is what remains
  std::uint64_t chunk_bytes = 0;  // of the whole decoded chunk

  friend bool operator==(const ChunkLayout&, const ChunkLayout&) = default;
};

// One box. Trivially copyable: a kernel reads it as it is.
struct Placement {
  static constexpr std::uint32_t kRank = 6;  // after normalise(); what has more is a DeepPlacement

  std::uint64_t src = 0;        // address of the chunk's first byte, in the memory of the device
  std::uint64_t dst = 0;        // address of the box's first element
  std::int64_t src_offset = 0;  // bytes from `src` to the box's first element, as if the chunk were not shuffled
  CopyAxis axes[kRank] = {};    // outermost first; strides in bytes of the unshuffled chunk
  std::uint32_t rank = 0;
  CopyOp op;
  ChunkLayout layout;

  std::uint64_t elements() const noexcept {
    std::uint64_t count = 1;
    for (std::uint32_t i = 0; i < rank; ++i) count *= static_cast<std::uint64_t>(axes[i].extent);
    return count;
  }
};
static_assert(std::is_trivially_copyable_v<Placement>);

// A box with more axes. One record, however many placements it would be.
struct DeepPlacement {
  BlockCopy copy;         // offsets count from `src` and `dst`
  std::uint64_t src = 0;  // as a placement's
  std::uint64_t dst = 0;
  ChunkLayout layout;
};
static_assert(std::is_trivially_copyable_v<DeepPlacement>);

// The placements of one wave. `add` may be called by many threads; all else by one, when no `add` runs: that needs no
// lock.
class PlacementList {
 public:
  // `copy` is normalised; offsets count from `src` and `dst`. Drops what is empty.
  void add(const BlockCopy& copy, std::uint64_t src, std::uint64_t dst, const ChunkLayout& layout);
  void add(const Placement& placement);
  // All of another list, at once.
  void add(const PlacementList& more);
  void reserve(std::size_t placements) DAMACY_NO_THREAD_SAFETY_ANALYSIS { placements_.reserve(placements); }
  // Sets the base address of destinations that were added as offsets. `base` is aligned as devices align memory.
  void rebase(std::uint64_t base) noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    prepared_.reset();
    for (Placement& placement : placements_) placement.dst += base;
    for (DeepPlacement& deep : deep_) deep.dst += base;
  }
  std::span<const Placement> placements() const noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS { return placements_; }
  std::span<const DeepPlacement> deep() const noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS { return deep_; }
  std::size_t size() const noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS { return placements_.size() + deep_.size(); }
  // What a copier has worked out in write_image() and needs in enqueue(), unless the list changes in between.
  void set_prepared(std::shared_ptr<const void> prepared) const noexcept { prepared_ = std::move(prepared); }
  std::shared_ptr<const void> take_prepared() const noexcept { return std::exchange(prepared_, nullptr); }
  void clear() noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS {
    prepared_.reset();
    placements_.clear();
    deep_.clear();
  }

 private:
  Mutex mutex_;
  std::vector<Placement> placements_ DAMACY_GUARDED_BY(mutex_);
  std::vector<DeepPlacement> deep_ DAMACY_GUARDED_BY(mutex_);
  mutable std::shared_ptr<const void> prepared_;
};

// Runs lists of placements in the order of a stream. A list's image has the records for the device: it is written to
// pinned memory, uploaded by the caller, and read by the work that enqueue() adds.
class Copier {
 public:
  virtual ~Copier() = default;
  // Whether lists may have deep placements. Otherwise they are run in portions.
  virtual bool takes_deep() const noexcept { return false; }
  virtual std::size_t image_bytes(const PlacementList& list) const = 0;
  virtual void write_image(const PlacementList& list, std::span<std::byte> image) const = 0;
  // Copies an image from pinned memory to device memory, in the order of `stream`, without waiting behind large copies.
  // Both are 256-byte aligned, with a length rounded up to 16 bytes.
  virtual void upload_image(Stream& stream, std::span<std::byte> image, std::span<const std::byte> pinned) {
    stream.copy(image, pinned);
  }
  // `image`: the uploaded image, 256-byte aligned, in the memory of the stream's device; stays until the work is done.
  // `list` may change as soon as this returns.
  virtual void enqueue(Stream& stream, const PlacementList& list, std::span<const std::byte> image) = 0;
};

// Runs all placements of `list` in lists of at most `most` records that `copier` supports, so that the unrolled records
// of many axes never exist all at once. `run` no longer uses a list when it returns.
void for_each_portion(const Copier& copier, const PlacementList& list, std::size_t most,
                      const std::function<void(const PlacementList&)>& run);
// Enqueues them in portions whose images use the same memory: `pinned`, and on the device `image`, which is no smaller.
// Waits between portions. All are placed when pinned.ready() has passed. Throws Error(oom) if an image does not fit.
void enqueue_in_portions(Copier& copier, Stream& stream, const PlacementList& list, FencedMemory& pinned,
                         std::span<std::byte> image);

std::unique_ptr<Copier> make_host_copier();
// Throws Error(cuda, "no-device") in a build without CUDA.
std::unique_ptr<Copier> make_cuda_copier();

}  // namespace damacy
