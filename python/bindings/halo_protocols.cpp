// array_layout() reads layouts that are as usual, without Python code. All others are read here.
#include "halo_protocols.h"

#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/dlpack_abi.h"
#include "damacy/halo/spec.h"
#include "halo_values.h"
#include "memory_blocks.h"

namespace damacy::python {
namespace {

template <class Value>
Value part(nb::handle object, const char* name) {
  return nb::cast<Value>(object.attr(name));
}

std::string library_of(nb::handle array) {
  return nb::cast<std::string>(python_part("damacy.halo._arrays", "library_of")(array));
}

Dtype code_of(nb::handle dtype) {
  return dtype_of(python_part("damacy.halo._dtypes", "code_of")(dtype));
}

std::int64_t size(Dtype dtype) {
  return static_cast<std::int64_t>(size_of(dtype));
}

PythonLayout of_numpy(nb::handle array, nb::handle owner) {
  const nb::object data = array.attr("__array_interface__")["data"];
  const bool has_elements = part<std::int64_t>(array, "size") > 0;
  return {{has_elements ? nb::cast<std::uint64_t>(nb::object(data[0])) : 0, dims_of(array.attr("shape")),
           dims_of(array.attr("strides")), code_of(array.attr("dtype")), std::nullopt,
           part<bool>(array.attr("flags"), "writeable"), std::nullopt},
          nb::borrow(owner)};
}

PythonLayout of_torch(nb::handle tensor) {
  const nb::object device = tensor.attr("device");
  const auto kind = part<std::string>(device, "type");
  if (nb::cast<bool>(tensor.attr("is_conj")()) || nb::cast<bool>(tensor.attr("is_neg")()))  // it has set a flag only
    throw Error(Status::inval, "a lazy conjugate or negative of torch: call resolve_conj() or resolve_neg() first");
  const std::string layout = nb::str(tensor.attr("layout")).c_str();
  const bool has_memory = (kind == "cpu" || kind == "cuda") && layout == "torch.strided";
  const auto address = has_memory ? nb::cast<std::uint64_t>(tensor.attr("data_ptr")()) : 0;
  if (address == 0 && nb::cast<std::int64_t>(tensor.attr("numel")()) > 0)
    throw Error(Status::dtype, formatted("a {} tensor on {} has no memory that a halo exchange can read", layout,
                                         nb::str(device).c_str()));
  const auto index = part<std::optional<int>>(device, "index").value_or(0);
  const Dims strides =
      halo::in_bytes(dims_of(tensor.attr("stride")()), nb::cast<std::int64_t>(tensor.attr("element_size")()));
  return {{address, dims_of(tensor.attr("shape")), strides, code_of(tensor.attr("dtype")),
           kind == "cpu" ? std::nullopt : std::optional(index), true, std::nullopt},
          nb::borrow(tensor)};
}

int device_of(std::uint64_t pointer) {
  const auto device = bind_pointer(pointer);
  return device == nullptr ? 0 : device->index();
}

PythonLayout of_cuda_interface(nb::handle array) {
  const nb::object interface = array.attr("__cuda_array_interface__");
  const nb::object said = python_part("damacy._device.cuda_interface", "parse_interface")(interface);
  // NumPy has no name for some types, so the type comes from the array, not from the interface.
  nb::object type = nb::getattr(array, "dtype", nb::none());
  if (type.is_none()) type = python_part("numpy", "dtype")(said.attr("typestr"));
  const Dtype dtype = code_of(type);
  if (size(dtype) != part<std::int64_t>(said, "itemsize"))
    throw Error(Status::dtype, formatted("an array of {}, but its __cuda_array_interface__ has typestr {}",
                                         name_of(dtype), nb::str(said.attr("typestr")).c_str()));
  const auto pointer = part<std::uint64_t>(said, "pointer");
  const Dims shape = dims_of(said.attr("shape"));
  const nb::object strides = said.attr("strides"), device = nb::getattr(array, "device", nb::none());
  const nb::object index = nb::getattr(device, "id", device);
  return {{pointer, shape, strides.is_none() ? halo::c_strides(shape, size(dtype)) : dims_of(strides), dtype,
           nb::isinstance<nb::int_>(index) ? nb::cast<int>(index) : device_of(pointer), !part<bool>(said, "read_only"),
           part<std::optional<std::uint64_t>>(said, "stream")},
          nb::borrow(array)};
}

PythonLayout of_dlpack(nb::handle array) {
  const nb::object place = array.attr("__dlpack_device__")();
  const DLDevice device{nb::cast<int>(nb::int_(nb::object(place[0]))), nb::cast<int>(nb::int_(nb::object(place[1])))};
  const bool on_device = is_on_gpu(device);
  if (!on_device && !is_on_host(device))
    throw Error(Status::inval,
                formatted("DLPack device type {} is not supported, only CPU, CUDA, CUDA host and CUDA managed",
                          device.device_type),
                halo::kUnsupported);
  const nb::object stream = on_device ? nb::object(nb::int_(kLegacyStream)) : nb::none();
  const nb::object capsule = python_part("damacy._device.exchange", "capsule_of")(array, stream);
  const nb::object said = python_part("damacy._native", "from_dlpack")(capsule);
  const DLDataType type{nb::cast<std::uint8_t>(nb::object(said[3])), nb::cast<std::uint8_t>(nb::object(said[4])),
                        nb::cast<std::uint16_t>(nb::object(said[5]))};
  const auto dtype = find_dtype(type);
  if (!dtype)
    throw Error(Status::dtype, formatted("halo exchange of DLPack type {}, {} bits, {} lanes: no such element type",
                                         int{type.code}, int{type.bits}, type.lanes));
  const nb::object block(said[0]), strides(said[7]);
  const Dims shape = dims_of(nb::object(said[6]));
  const bool has_elements = product(shape.span()).value_or(1) != 0;
  const std::string library = library_of(array);
  const bool is_immutable = library == "jax" || library == "jaxlib";  // exported without the flag
  return {
      {has_elements ? nb::cast<const MemoryBlock&>(block).address : 0, shape,
       strides.is_none() ? halo::c_strides(shape, size(*dtype)) : halo::in_bytes(dims_of(strides), size(*dtype)),
       *dtype, on_device ? std::optional(device.device_id) : std::nullopt,
       !nb::cast<bool>(nb::object(said[8])) && !is_immutable, on_device ? std::optional(kLegacyStream) : std::nullopt},
      block};
}

}  // namespace

PythonLayout layout_of(nb::handle array) {
  if (const auto usual = array_layout(array)) return {*usual, nb::borrow(array)};
  const nb::object as_numpy = python_part("numpy", "asarray");
  if (nb::isinstance(array, python_part("numpy", "ndarray"))) return of_numpy(array, array);
  if (nb::hasattr(array, "data_ptr") && library_of(array) == "torch") return of_torch(array);
  if (nb::hasattr(array, "__cuda_array_interface__")) return of_cuda_interface(array);
  if (nb::hasattr(array, "__array_interface__")) return of_numpy(as_numpy(array), array);
  if (const nb::object view = nb::steal(PyMemoryView_FromObject(array.ptr())); view.is_valid()) {
    try {
      const nb::object seen = as_numpy(view);
      return of_numpy(seen, seen);
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_BufferError)) throw;
    }
  } else if (PyErr_ExceptionMatches(PyExc_TypeError) != 0 || PyErr_ExceptionMatches(PyExc_BufferError) != 0) {
    PyErr_Clear();
  } else {
    throw nb::python_error();
  }
  if (nb::hasattr(array, "__dlpack_device__")) return of_dlpack(array);
  throw Error(Status::dtype, formatted("a {} gives no array", nb::str(array.type().attr("__name__")).c_str()));
}

void bind_halo_protocols(nb::module_& m) {
  nb::class_<PythonLayout>(m, "ArrayLayout", "The position and type of an array's elements in memory.")
      .def_prop_ro("address", [](const PythonLayout& l) { return l.at.address; })
      .def_prop_ro("shape", [](const PythonLayout& l) { return tuple_of(l.at.shape); })
      .def_prop_ro(
          "strides", [](const PythonLayout& l) { return tuple_of(l.at.strides); }, "In bytes.")
      .def_prop_ro("dtype", [](const PythonLayout& l) { return static_cast<int>(l.at.dtype); })
      .def_prop_ro(
          "device", [](const PythonLayout& l) { return l.at.device; }, "CUDA's ordinal; None: host memory.")
      .def_prop_ro("writable", [](const PythonLayout& l) { return l.at.is_writable; })
      .def_prop_ro(
          "stream", [](const PythonLayout& l) { return l.at.stream; }, "That the array's protocol names.")
      .def_prop_ro("nbytes", [](const PythonLayout& l) { return halo::bytes_of(l.at.shape, size(l.at.dtype)); })
      .def_prop_ro("is_c_contiguous", [](const PythonLayout& l) {
        return halo::is_c_contiguous(l.at.shape, l.at.strides, size(l.at.dtype));
      });
  m.def(
      "layout_of", [](nb::object array) { return layout_of(array); }, nb::arg("array"),
      "TypeError for element types that halo exchanges cannot use.");
}

}  // namespace damacy::python
