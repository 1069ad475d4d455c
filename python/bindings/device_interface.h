// Memory of a Python object by `__cuda_array_interface__`, for the usual contents of that dictionary, or of a
// torch.Tensor by itself; and the stream that torch uses. For anything else damacy._fileio.memory and
// damacy.halo._arrays decide. The GIL must be held; calls no CUDA.
#pragma once

#include <cstdint>
#include <optional>

#include "bindings.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "dlpack_exchange.h"

namespace damacy::python {

// Empty: not a dictionary of the usual form, or one with an error.
std::optional<ArrayBytes> usual_interface(nb::handle interface);

// A torch.Tensor by itself, without the dictionary, which costs several microseconds: by torch's C functions (2.10 and
// later), else by attributes, of which host memory has too few. Empty for other objects, subclasses, tensors that have
// a gradient or are not contiguous, and tensors on other devices.
std::optional<ArrayBytes> torch_memory(nb::handle object);

// Of a numpy.ndarray or a torch.Tensor, or by `__cuda_array_interface__`, without Python code. Empty for everything
// that is not as usual: what it is, and what is wrong with it, damacy.halo._arrays finds out.
std::optional<ArrayLayout> array_layout(nb::handle array);

// Whether it is a numpy.ndarray or a torch.Tensor itself, without names of dimensions of its own.
bool is_plain_array(nb::handle array);

// Whether it is a torch.Tensor or of a subclass.
bool is_tensor(nb::handle object);

// Whether the object's class is of a library that has a current stream.
bool has_current_stream(nb::handle object);

}  // namespace damacy::python
