// Device memory of a Python object by `__cuda_array_interface__`, for the usual contents of that dictionary, or of a
// torch.Tensor by its attributes; and the stream that torch uses. For anything else damacy._fileio.memory and
// damacy.halo._arrays decide. The GIL must be held; calls no CUDA.
#pragma once

#include <cstdint>
#include <optional>

#include "bindings.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"

namespace damacy::python {

struct DeviceBytes {
  std::uint64_t pointer = 0;
  std::uint64_t size = 0;
  bool read_only = false;
  std::optional<std::uint64_t> stream;  // of the memory's last use, if the object says so
};

// Empty: not a dictionary of the usual form, or one with an error.
std::optional<DeviceBytes> usual_interface(nb::handle interface);

// A torch.Tensor by itself, without the dictionary, which costs several microseconds. Empty for other objects,
// subclasses, tensors that have a gradient or are not contiguous, and tensors on other devices.
std::optional<DeviceBytes> torch_memory(nb::handle object);

// Where an array's elements are.
struct ArrayLayout {
  std::uint64_t address = 0;  // 0 if it has no elements
  Dims shape;
  Dims strides;  // bytes
  Dtype dtype = Dtype::f64;
  std::optional<int> device;  // none: host memory
  bool is_writable = true;
  std::optional<std::uint64_t> stream;  // that the array names

  bool operator==(const ArrayLayout&) const = default;
};

// Of a numpy.ndarray or a torch.Tensor, or by `__cuda_array_interface__`, without Python code. Empty for everything
// that is not as usual: what it is, and what is wrong with it, damacy.halo._arrays finds out.
std::optional<ArrayLayout> array_layout(nb::handle array);

// Whether it is a numpy.ndarray or a torch.Tensor itself, without names of dimensions of its own.
bool is_plain_array(nb::handle array);

// Whether the object's class is of a library that has a current stream.
bool has_current_stream(nb::handle object);

}  // namespace damacy::python
