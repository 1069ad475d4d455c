// Ranges of files that land in one buffer, described by arrays of int64. Knows the arrays and the buffer's size; not
// what reads the ranges. The GIL must be held.
#pragma once

#include <optional>

#include "cufile.h"
#include "damacy/core/formatted.h"
#include "int64_array.h"

namespace damacy::python {

class PackedRanges {
 public:
  // Without `buf_offsets` (None) each range follows the one before it.
  PackedRanges(nb::handle sizes, nb::handle file_offsets, nb::handle buf_offsets)
      : sizes_(sizes, "sizes"), offsets_(file_offsets, "file_offsets") {
    if (!buf_offsets.is_none()) places_.emplace(buf_offsets, "buf_offsets");
    if (offsets_.size() != size() || (places_ && places_->size() != size()))
      raise(PyExc_ValueError, "sizes, file_offsets and buf_offsets differ in length");
  }
  std::size_t size() const noexcept { return sizes_.size(); }

  // Calls add(file offset, size, place in the buffer). Raises for the first range that is in no file or buffer.
  template <class Add>
  void for_each(const HeldBuffer& buffer, Add add) const {
    std::uint64_t next = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      const std::uint64_t at = places_ ? (*places_)[i] : next;
      if (at > buffer.size() || sizes_[i] > buffer.size() - at)
        raise(PyExc_ValueError, formatted("Size is greater than the size of the buffer: range {}, {} bytes at {} of {}",
                                          i, sizes_[i], at, buffer.size()));
      check_end(offsets_[i], sizes_[i]);
      add(offsets_[i], sizes_[i], at);
      next = at + sizes_[i];
    }
  }

 private:
  const Int64Array sizes_, offsets_;
  std::optional<Int64Array> places_;
};

}  // namespace damacy::python
