// A copy plan: many block copies between arrays (slots), checked and compiled once, run any number of times on any
// arrays of the same layouts. Rotation, transposes and flips are strides; exchanged components are the choice of slot.
// Knows layouts and boxes; not addresses, not streams' owners, not what the copies are for.
//
//   const auto plan = copy::compile(slots, copies);   // host only; throws Error(inval) for what would go wrong
//   copy::run(*plan, bases);                          // one base address a slot, in the slots' order
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "damacy/copy/block.h"
#include "damacy/copy/slot_copy.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"

namespace damacy::copy {

enum class Path : std::uint8_t { rows, strided, transpose, tiny };

// A compiled copy, and how it is cut into tiles. Trivially copyable: a kernel reads it as it is.
struct Piece {
  static constexpr std::uint32_t kAxes = 4;  // outermost first; those that are not needed come first with extent 1

  std::uint32_t src_slot = 0;
  std::uint32_t dst_slot = 0;
  std::int64_t src_offset = 0;
  std::int64_t dst_offset = 0;
  CopyAxis axes[kAxes] = {{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}};
  std::int64_t tile[kAxes] = {1, 1, 1, 1};          // extents of a tile
  std::uint32_t tile_counts[kAxes] = {1, 1, 1, 1};  // along each axis
  std::uint32_t first_tile = 0;                     // in its phase
  std::uint32_t copy = 0;                           // which of the copies it comes from
  Dtype from = Dtype::u8;
  Dtype to = Dtype::u8;
  bool negate = false;
  bool add = false;
  Path path = Path::tiny;

  std::uint32_t tiles() const noexcept { return tile_counts[0] * tile_counts[1] * tile_counts[2] * tile_counts[3]; }
  std::int64_t elements() const noexcept { return axes[0].extent * axes[1].extent * axes[2].extent * axes[3].extent; }
};
static_assert(std::is_trivially_copyable_v<Piece>);

// Pieces that may run in any order. Overlapping additions are in successive phases.
struct Phase {
  std::vector<Piece> pieces;
  std::uint32_t tiles = 0;
};

// A plan's tables on a device: uploaded at the first run there, freed with the plan.
class DeviceTables {
 public:
  virtual ~DeviceTables() = default;
};

class Plan {
 public:
  Plan(std::vector<Slot> slots, std::vector<Copy> copies, std::vector<Phase> phases);

  std::span<const Slot> slots() const noexcept { return slots_; }
  std::span<const Copy> copies() const noexcept { return copies_; }
  std::span<const Phase> phases() const noexcept { return phases_; }
  std::uint64_t bytes() const noexcept { return bytes_; }  // stored by one run
  std::size_t hash() const noexcept { return hash_; }
  friend bool operator==(const Plan& a, const Plan& b) {
    return a.hash_ == b.hash_ && a.slots_ == b.slots_ && a.copies_ == b.copies_;
  }

  // One line a copy: slots, bytes, path, tiles.
  std::string describe() const;

  // For executors: the tables of a device, made by `make` on first use.
  template <class Make>
  DeviceTables& tables(int device, Make make) const {
    const Lock lock(mutex_);
    for (auto& [index, tables] : tables_)
      if (index == device) return *tables;
    tables_.emplace_back(device, make());
    return *tables_.back().second;
  }

 private:
  std::vector<Slot> slots_;
  std::vector<Copy> copies_;
  std::vector<Phase> phases_;
  std::uint64_t bytes_ = 0;
  std::size_t hash_ = 0;
  mutable Mutex mutex_;
  mutable std::vector<std::pair<int, std::unique_ptr<DeviceTables>>> tables_ DAMACY_GUARDED_BY(mutex_);
};

// Throws Error(inval): a box that leaves its slot, a destination that is not writable, destinations that overlap unless
// all concerned add, a source that overlaps a destination, numbers out of range; Error(dtype): an operation that the
// types do not have. The message names the copy.
std::shared_ptr<const Plan> compile(std::vector<Slot> slots, std::vector<Copy> copies);

// The same rules about overlaps for given arrays, which may share memory: throws Error(inval) with the two copies.
void check_overlaps(const Plan& plan, std::span<const std::uint64_t> bases);

// Runs on the calling thread and `threads - 1` more; complete when it returns.
void run(const Plan& plan, std::span<const std::uint64_t> bases, unsigned threads = 1);

// Runs in the order of `stream`; one launch per phase on CUDA. The arrays must stay valid until the work is done.
using Bases = std::shared_ptr<const std::vector<std::uint64_t>>;
void enqueue(Stream& stream, int device, std::shared_ptr<const Plan> plan, Bases bases);

// The same on a CUDA stream of another owner, by handle, in the current context. Returns a CUDA error or 0.
int launch_copies(const Plan& plan, std::span<const std::uint64_t> bases, int device, std::uint64_t stream);

}  // namespace damacy::copy
