// Where the elements of a read go in the memory of its caller. Pure: knows shapes and strides; reads nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "damacy/core/dims.h"
#include "damacy/plan/selection.h"
#include "damacy/zarr/array.h"

namespace damacy {

// Bytes of the memory that is written, and for each axis of the array the step from an element to the next.
struct ReadLayout {
  std::span<std::byte> memory;
  std::int64_t first = 0;  // byte of element (0, ..., 0)
  Dims strides;
};

// `what` has the shape of the result; an element has `element` bytes. Throws Error(inval) if it is not inside `out`.
[[nodiscard]] ReadLayout layout_of(const ResolvedSelection& what, const ReadOutput& out, std::int64_t element);

}  // namespace damacy
