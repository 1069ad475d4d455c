// Memory of a Python object by the buffer protocol; the destructor releases it. The GIL must be held. Knows no devices.
// After a move only bytes() is valid: `shape` and `strides` may point into the moved-from object.
#pragma once

#include <span>
#include <utility>

#include "bindings.h"

namespace damacy::python {

class BufferView {
 public:
  BufferView() = default;
  // `flags`: PyBUF_... Throws the object's exception.
  BufferView(nb::handle object, int flags) {
    if (!take(object, flags)) throw nb::python_error();
  }
  BufferView(BufferView&& other) noexcept : view_(other.view_), held_(std::exchange(other.held_, false)) {}
  BufferView& operator=(BufferView&& other) = delete;
  ~BufferView() { release(); }

  // False if the object has no such buffer; a Python exception is then set.
  bool take(nb::handle object, int flags) {
    release();
    held_ = PyObject_GetBuffer(object.ptr(), &view_, flags) == 0;
    return held_;
  }
  void release() noexcept {
    if (std::exchange(held_, false)) PyBuffer_Release(&view_);
  }

  const Py_buffer& operator*() const noexcept { return view_; }
  const Py_buffer* operator->() const noexcept { return &view_; }
  std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

}  // namespace damacy::python
