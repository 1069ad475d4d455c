// A selection of one stored object (a chunk or a shard) with its destination: along each axis, runs of indices and the
// places of their elements. Slices with steps, lists of indices and masks become runs. Pure: knows no object and no
// thread. The place of an element is the sum of the places along its axes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "damacy/copy/block_copy.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// Elements from, from + step, ... along an axis go to the bytes to, to + to_step, ... of the destination.
struct Run {
  std::int64_t from = 0;
  std::int64_t step = 1;  // >= 0
  std::int64_t to = 0;
  std::int64_t to_step = 0;
  std::int64_t count = 0;
  std::uint32_t finish = 0;  // how many behind the first one, of the finishes of a copy's operation
  friend bool operator==(const Run&, const Run&) = default;
};

// An axis that vanishes is one run of one element that goes to 0.
using AxisRuns = std::vector<Run>;

// Single indices and their places become as few runs as possible.
[[nodiscard]] AxisRuns as_runs(std::span<const std::int64_t> from, std::span<const std::int64_t> to);
// The same of indices that may also fall, whose places are `to`, `to + to_step`, ...
[[nodiscard]] AxisRuns as_runs(std::span<const std::int64_t> from, std::int64_t to, std::int64_t to_step);

// What of an axis falls into one inner chunk; runs count from the start of that chunk.
struct AxisPart {
  std::int64_t chunk = 0;
  AxisRuns runs;
};

// Sorted by chunk.
[[nodiscard]] std::vector<AxisPart> split_runs(const AxisRuns& runs, std::int64_t chunk_extent);

// A selection of one stored object, cut along its inner chunks. The parts are numbered in C order over the axes.
class SplitSelection {
 public:
  SplitSelection(std::span<const AxisRuns> axes, const Dims& chunk_shape);

  std::int64_t size() const noexcept { return size_; }
  Dims chunk_of(std::int64_t part) const noexcept;         // coordinates in the grid of inner chunks of the object
  std::int64_t part_of(const Dims& chunk) const noexcept;  // of a chunk that has one

  // The byte interval of the decoded chunk that holds the part. `strides`: of a decoded chunk, bytes.
  ByteRange bytes_of(std::int64_t part, const Dims& strides, std::size_t element) const noexcept;
  // The copies that bring the part from a chunk to the destination, which begins at `to`; normalised. Strides of 0 make
  // one element fill it. Where the operation has a finish, it is the first of those that runs name.
  void for_copies(std::int64_t part, const Dims& strides, std::int64_t to, const CopyOp& op,
                  const std::function<void(const BlockCopy&)>& visit) const;
  std::int64_t copies(std::int64_t part) const noexcept;  // how many those are
  std::int64_t copies() const noexcept;                   // of all parts; saturates
  std::int64_t elements(std::int64_t part) const noexcept;

 private:
  const AxisPart& axis_part(std::size_t axis, std::int64_t& rest) const noexcept;
  template <class Visit>
  void for_axes(std::int64_t part, Visit visit) const;

  std::vector<std::vector<AxisPart>> axes_;
  std::int64_t size_ = 1;
};

// The distinct chunks of one stored object that several selections want, each with its parts of them.
class SelectedChunks {
 public:
  // One an axis of the array, for each selection. `object`: an array as large as one stored object, which outlives it.
  SelectedChunks(const Array& object, std::span<const std::span<const AxisRuns>> selections);

  std::size_t size() const noexcept { return chunks_.size(); }
  // In the object; ascending. Chunks of one innermost shard follow one another.
  std::uint64_t number(std::size_t chunk) const noexcept { return chunks_[chunk].number; }
  Dims coordinates(std::size_t chunk) const noexcept;  // in the grid of inner chunks of the object
  // Of the decoded chunk, sorted and disjoint.
  std::vector<ByteRange> needed_bytes(std::size_t chunk) const;
  // As SplitSelection has them, of all parts.
  void for_copies(std::size_t chunk, const Dims& strides, std::int64_t to, const CopyOp& op,
                  const std::function<void(const BlockCopy&)>& visit) const;
  std::int64_t copies(std::size_t chunk) const noexcept;

 private:
  struct Part {
    std::uint32_t selection;
    std::int64_t number;  // in it
  };
  struct Chunk {
    std::uint64_t number;
    std::uint32_t first_part, part_count;
  };
  std::span<const Part> parts_of(std::size_t chunk) const noexcept {
    return std::span(parts_).subspan(chunks_[chunk].first_part, chunks_[chunk].part_count);
  }
  std::uint64_t number_of(const Dims& chunk) const noexcept;

  const Array& object_;
  std::vector<SplitSelection> selections_;
  std::vector<Part> parts_;  // by chunk
  std::vector<Chunk> chunks_;
};

}  // namespace damacy
