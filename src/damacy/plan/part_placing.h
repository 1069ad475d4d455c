// Where the elements of a part come from and go, where it is more than a box that fills a row: axes with steps, lists
// of indices or borders, rows that are reordered, turned or flipped, elements that are finished. Pure: numbers in, runs
// out. Knows one array's shape; not its chunks' bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "damacy/copy/block.h"
#include "damacy/copy/finish.h"
#include "damacy/core/dims.h"
#include "damacy/plan/selection.h"

namespace damacy {

// The index in [0, size) whose element stands at `index`; of a border other than none and constant. `size` > 0.
[[nodiscard]] std::int64_t index_within(std::int64_t index, std::int64_t size, Border border) noexcept;

// Which elements of a stored axis a part has, and where they go.
struct PartAxis {
  std::int64_t start = 0;  // every `step`-th index of [start, stop), which may lie beyond the array
  std::int64_t stop = 0;
  std::int64_t step = 1;                   // >= 1
  std::vector<std::int64_t> indices = {};  // not empty: these, in this order, instead
  Border border = Border::none;
  std::uint64_t constant = 0;     // bits of an element of the batch, with Border::constant
  std::int64_t stride = 0;        // bytes of the row between two positions; negative: flipped
  bool has_own_finishes = false;  // position i has the finish i

  std::int64_t extent() const noexcept;
};

// An axis as runs: what lies in the array, where constants go, and all positions.
struct AxisPlaces {
  AxisRuns stored;
  AxisRuns constant;
  Run all;
  std::int64_t beyond = 0;  // positions beyond the array
};

// Immutable; belongs to one part of one sample.
class PartPlacing {
 public:
  // `axes` of the array, in stored order. `begin`: bytes from the first byte of the part in the row to its first
  // position. `finishes`: none, one, or one a position of the axis that has its own. Throws Error(inval, "aabb") for an
  // index beyond an axis without a border, and Error(inval, "limit") for too many pieces.
  PartPlacing(const Dims& shape, const Dims& chunk_shape, std::span<const PartAxis> axes, std::int64_t begin,
              std::vector<Finish> finishes, Dtype from, Dtype to);

  // Chunks from which elements come; those without any are not among them.
  std::int64_t chunks() const noexcept { return stored_.size(); }
  Dims chunk(std::int64_t number) const noexcept { return stored_.chunk_of(number); }
  // Copies of elements that are constants of the border.
  bool has_constants() const noexcept { return !constants_.empty(); }
  std::int64_t constant_copies() const noexcept { return constant_copies_; }
  std::int64_t padded_elements() const noexcept { return padded_; }  // beyond the array, of any border

  // Of one of the chunks above:
  ByteRange bytes_of(const Dims& chunk, const Dims& strides) const noexcept;
  std::int64_t copies(const Dims& chunk) const noexcept { return stored_.copies(stored_.part_of(chunk)); }
  std::int64_t elements(const Dims& chunk) const noexcept { return stored_.elements(stored_.part_of(chunk)); }

  using Visit = std::function<void(const BlockCopy&)>;
  // Normalised; `to`: where the part begins. `strides`: of the decoded chunk, in bytes; zeros: one element fills all.
  void for_copies(const Dims& chunk, const Dims& strides, bool swap_bytes, std::int64_t to, const Visit& visit) const;
  void for_constants(std::int64_t to, const Visit& visit) const;
  // All of the part, from one element in the machine's byte order.
  void for_fill(std::int64_t to, const Visit& visit) const;

 private:
  PartPlacing(std::vector<AxisPlaces> places, const Dims& chunk_shape, std::span<const PartAxis> axes,
              std::int64_t begin, std::vector<Finish> finishes, Dtype from, Dtype to);
  CopyOp op(bool swap_bytes) const noexcept {
    return {from_, to_, swap_bytes, finishes_.empty() ? nullptr : finishes_.data()};
  }

  Dtype from_, to_;
  std::int64_t begin_;
  std::vector<Finish> finishes_;
  struct Constant {
    std::size_t axis;
    Finish finish;
  };
  std::vector<Constant> constants_;
  std::int64_t constant_copies_ = 0;
  std::vector<AxisPlaces> places_;  // empty where there are no constants
  std::int64_t padded_ = 0;
  SplitSelection stored_;
};

}  // namespace damacy
