// Arrays of int64 that describe ranges. Knows the buffer protocol; not what the numbers mean. The GIL must be held.
#pragma once

#include <cstdint>
#include <string_view>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/core/formatted.h"

namespace damacy::python {

// A view of an array of int64, by the buffer protocol.
class Int64Array {
 public:
  Int64Array(nb::handle object, const char* name) {
    if (!view_.take(object, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS)) {
      PyErr_Clear();
      raise(PyExc_TypeError, formatted("{}: expected an array of int64", name));
    }
    const std::string_view format = view_->format != nullptr ? view_->format : "";
    const bool is_int64 = view_->itemsize == 8 && (format == "l" || format == "q" || format == "<q" || format == "<l" ||
                                                   format == "=q" || format == "@l");
    if (!is_int64)
      raise(PyExc_TypeError, formatted("{}: expected an array of int64 (got format \"{}\")", name, format));
    name_ = name;
  }
  std::size_t size() const noexcept { return view_.bytes().size() / 8; }
  std::uint64_t operator[](std::size_t i) const {
    const std::int64_t value = static_cast<const std::int64_t*>(view_->buf)[i];
    if (value < 0) raise(PyExc_OverflowError, formatted("negative value: {}[{}]", name_, i));
    return static_cast<std::uint64_t>(value);
  }

 private:
  BufferView view_;
  const char* name_ = "";
};

}  // namespace damacy::python
