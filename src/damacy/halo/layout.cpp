#include "damacy/halo/spec.h"

#include <algorithm>
#include <numeric>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::halo {
namespace {

Error too_large(const Dims& shape, std::int64_t item) {
  return Error(Status::inval,
               formatted("an array of shape {} with elements of {} bytes is too large", tuple_text(shape.span()), item),
               "bounds");
}

// The stride of the dimension around one with this stride.
std::int64_t stride_around(std::int64_t stride, std::int64_t length, const Dims& shape, std::int64_t item) {
  const auto around = checked_mul(stride, std::max<std::int64_t>(length, 1));
  if (!around) throw too_large(shape, item);
  return *around;
}

Axes c_order(std::size_t rank) {
  Axes axes(rank);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  return axes;
}

Axes channels_last(std::size_t rank) {
  Axes axes{0};
  for (std::size_t axis = 2; axis < rank; ++axis) axes.push_back(axis);
  axes.push_back(1);
  return axes;
}

bool has_no_cells(const Dims& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

bool are_strides(const Dims& strides, const Dims& dense, const Dims& shape) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > 1 && strides[axis] != dense[axis]) return false;
  return true;
}

}  // namespace

Dims dense_strides(const Dims& shape, std::span<const std::size_t> order, std::int64_t item) {
  Dims strides(shape.size(), item);
  std::int64_t next = item;
  for (std::size_t at = order.size(); at-- > 0;) {
    strides[order[at]] = next;
    next = stride_around(next, shape[order[at]], shape, item);
  }
  return strides;
}

Dims c_strides(const Dims& shape, std::int64_t item) {
  Dims strides(shape.size(), item);
  std::int64_t next = item;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = next;
    next = stride_around(next, shape[axis], shape, item);
  }
  return strides;
}

Dims in_bytes(const Dims& strides, std::int64_t item) {
  Dims out;
  for (const std::int64_t stride : strides) {
    const auto bytes = checked_mul(stride, item);
    if (!bytes) throw too_large(strides, item);
    out.push_back(*bytes);
  }
  return out;
}

bool is_c_contiguous(const Dims& shape, const Dims& strides, std::int64_t item) {
  return has_no_cells(shape) || are_strides(strides, c_strides(shape, item), shape);
}

std::int64_t bytes_of(const Dims& shape, std::int64_t item) {
  const auto cells = product(shape.span());
  const auto bytes = cells ? checked_mul(*cells, item) : std::nullopt;
  if (!bytes) throw too_large(shape, item);
  return *bytes;
}

Axes memory_order(const Dims& shape, const Dims& strides) {
  Axes order = c_order(shape.size());
  if (has_no_cells(shape) || are_strides(strides, c_strides(shape), shape)) return order;
  if (shape.size() == 4 || shape.size() == 5) {
    Axes last = channels_last(shape.size());
    if (are_strides(strides, dense_strides(shape, last), shape)) return last;
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if ((shape[a] > 1) != (shape[b] > 1)) return shape[a] <= 1;
    return strides[a] > strides[b];
  });
  return order;
}

}  // namespace damacy::halo
