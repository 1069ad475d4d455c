// Where the elements of samples lie in a slot: the arrays of a batch, their rows, and the parts of a row. The first
// sample fixes it for the whole stream. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"

namespace damacy {

class BatchLayout {
 public:
  // One array of a batch: row after row, row-major.
  struct Rows {
    std::string name;  // empty: the only array of a batch without names
    Dims extents;      // of a row; those of a stack begin with the number of its parts
    Dtype dtype;
    bool stacked;
    std::size_t first_part, parts;  // of a sample's
    std::int64_t begin;             // bytes, from the first one of the slot; a multiple of kBatchAlignment
    std::int64_t row_bytes;
  };
  // One part of every sample.
  struct Part {
    std::size_t array;
    Dims extents;
    Dims strides;  // bytes
    std::int64_t elements;
    std::int64_t begin;  // bytes, from the first one of the row
  };
  // The axes of a row where they are not the part's in their order, behind the stack's.
  struct RowShape {
    Dims extents;
    Dims strides;               // elements, of the part's axes
    std::int64_t stack_stride;  // from one part to the next
  };
  // An array as the first sample has it.
  struct First {
    std::string name;
    Dims part_extents;  // of every part
    std::size_t parts;
    bool stacked;
    std::optional<RowShape> row = {};
  };

  // In the order of `first`. Throws Error(oom, "memory") when a slot is beyond 2**63 bytes.
  BatchLayout(const Config& config, std::span<const First> first);

  const std::vector<Rows>& arrays() const noexcept { return arrays_; }
  const std::vector<Part>& parts() const noexcept { return parts_; }  // of a sample, in order of arrays
  bool is_named() const noexcept { return !arrays_.front().name.empty(); }
  std::int64_t slot_bytes() const noexcept { return slot_bytes_; }

  // Parts of a batch are numbered sample by sample.
  const Part& part(std::size_t number) const noexcept { return parts_[number % parts_.size()]; }
  const Rows& array_of(std::size_t number) const noexcept { return arrays_[part(number).array]; }
  std::size_t row_of(std::size_t number) const noexcept { return number / parts_.size(); }
  // Where a part lies in the slot.
  std::int64_t begin_of(std::size_t number) const noexcept {
    const Rows& rows = array_of(number);
    return rows.begin + static_cast<std::int64_t>(row_of(number)) * rows.row_bytes + part(number).begin;
  }
  // Of the slot, up to the end of the last of `rows` rows.
  std::int64_t bytes_of(std::size_t rows) const noexcept {
    return arrays_.back().begin + static_cast<std::int64_t>(rows) * arrays_.back().row_bytes;
  }
  std::int64_t sample_bytes() const noexcept;  // of all arrays

 private:
  void add(const Config& config, const First& first);

  std::vector<Rows> arrays_;
  std::vector<Part> parts_;
  std::int64_t slot_bytes_ = 0;
};

// As Config::arrays says, or else Config::dtype.
[[nodiscard]] Dtype dtype_of_rows(const Config& config, std::string_view array) noexcept;

}  // namespace damacy
