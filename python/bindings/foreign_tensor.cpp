#include "foreign_tensor.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "damacy/core/checked.h"
#include "damacy/core/formatted.h"

namespace damacy::python {
namespace {

constexpr std::int32_t kMostAxes = 64;  // as in NumPy

[[noreturn]] void refuse(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

std::uint64_t item_bytes_of(const DLDataType& type) {
  const std::uint32_t bits = std::uint32_t{type.bits} * type.lanes;
  if (type.bits == 0 || type.lanes == 0 || type.bits % 8 != 0)
    refuse(PyExc_TypeError, formatted("DLPack: elements of {} lanes of {} bits are not supported", type.lanes,
                                      static_cast<int>(type.bits)));
  return bits / 8;
}

// The bytes from the first to the last element, gaps included; empty if they exceed the address space.
std::optional<std::int64_t> reach_of(const DLTensor& tensor, std::int64_t item_bytes) {
  std::optional<std::int64_t> reach = item_bytes;
  for (std::int32_t axis = 0; axis < tensor.ndim && reach; ++axis) {
    const std::int64_t stride = tensor.strides[axis];
    if (stride == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    const auto skipped = checked_mul(tensor.shape[axis] - 1, stride < 0 ? -stride : stride);
    const auto bytes = skipped ? checked_mul(*skipped, item_bytes) : std::nullopt;
    reach = bytes ? checked_add(*reach, *bytes) : std::nullopt;
  }
  return reach;
}

std::uint64_t bytes_of(const DLTensor& tensor, std::uint64_t item_bytes) {
  const std::span<const std::int64_t> shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  for (const std::int64_t extent : shape)
    if (extent < 0) refuse(PyExc_ValueError, formatted("DLPack: invalid extent {}", extent));
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  auto bytes = std::optional(static_cast<std::int64_t>(item_bytes));
  for (const std::int64_t extent : shape) bytes = bytes ? checked_mul(*bytes, extent) : std::nullopt;
  if (!bytes || (tensor.strides != nullptr && !reach_of(tensor, static_cast<std::int64_t>(item_bytes))))
    refuse(PyExc_ValueError, "DLPack: shape and strides reach beyond the address space");
  return static_cast<std::uint64_t>(*bytes);
}

bool is_dense_in(const DLTensor& tensor, bool c_order) {
  std::int64_t expected = 1;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) {
    const std::int32_t axis = c_order ? tensor.ndim - 1 - i : i;
    if (tensor.shape[axis] == 1) continue;
    if (tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

}  // namespace

bool is_dense(const DLTensor& tensor) {
  const std::span<const std::int64_t> shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  return tensor.strides == nullptr || std::ranges::find(shape, 0) != shape.end() || is_dense_in(tensor, true) ||
         is_dense_in(tensor, false);
}

ForeignMemory checked_memory(const DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > kMostAxes || (tensor.ndim > 0 && tensor.shape == nullptr))
    refuse(PyExc_ValueError, formatted("DLPack: a tensor of {} axes, or without a shape", tensor.ndim));
  const std::uint64_t item_bytes = item_bytes_of(tensor.dtype);
  const std::uint64_t bytes = bytes_of(tensor, item_bytes);
  const auto data = reinterpret_cast<std::uint64_t>(tensor.data);
  const auto address = checked_add(data, tensor.byte_offset);
  if (!address || !checked_add(*address, bytes) || (data == 0 && bytes != 0))
    refuse(PyExc_ValueError, formatted("DLPack: invalid memory: {} bytes at address {} + {}", bytes, data,
                                       std::uint64_t{tensor.byte_offset}));
  return {*address, bytes, item_bytes};
}

ForeignTensor checked(const DLTensor& tensor) {
  const ForeignMemory memory = checked_memory(tensor);
  const auto axes = [&](const std::int64_t* of) {
    return tuple_of(std::span(of, static_cast<std::size_t>(tensor.ndim)));
  };
  return {memory, axes(tensor.shape), tensor.strides == nullptr ? nb::object(nb::none()) : axes(tensor.strides)};
}

}  // namespace damacy::python
