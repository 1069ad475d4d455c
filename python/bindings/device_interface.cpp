// Reads entries of exact built-in types only, so that no code of the user runs.
#include "device_interface.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/halo/spec.h"

namespace damacy::python {
namespace {

constexpr std::uint64_t kMost = (std::uint64_t{1} << 63) - 1;

// The names of entries, made once.
struct Names {
  PyObject* version = PyUnicode_InternFromString("version");
  PyObject* mask = PyUnicode_InternFromString("mask");
  PyObject* strides = PyUnicode_InternFromString("strides");
  PyObject* typestr = PyUnicode_InternFromString("typestr");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* data = PyUnicode_InternFromString("data");
  PyObject* stream = PyUnicode_InternFromString("stream");
};

// Borrowed; null for a missing entry and for None.
PyObject* entry(PyObject* dict, PyObject* name) {
  PyObject* const found = PyDict_GetItem(dict, name);
  return found == Py_None ? nullptr : found;
}

std::optional<std::uint64_t> number(PyObject* value) {
  if (value == nullptr || !PyLong_CheckExact(value)) return std::nullopt;
  const unsigned long long found = PyLong_AsUnsignedLongLong(value);
  if (found == ~0ULL && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return found;
}

// Of "<f4" and the like; empty for structured and other unusual types.
std::optional<std::uint64_t> item_bytes(PyObject* typestr) {
  if (typestr == nullptr || !PyUnicode_CheckExact(typestr)) return std::nullopt;
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(typestr, &length);
  if (text == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  const std::string_view type(text, static_cast<std::size_t>(length));
  constexpr std::string_view kOrders = "<>|=", kKinds = "biufcV";
  if (type.size() < 3 || type.size() > 5 || kOrders.find(type[0]) == kOrders.npos ||
      kKinds.find(type[1]) == kKinds.npos)
    return std::nullopt;
  std::uint64_t bytes = 0;
  for (const char digit : type.substr(2)) {
    if (std::isdigit(static_cast<unsigned char>(digit)) == 0) return std::nullopt;
    bytes = 10 * bytes + static_cast<std::uint64_t>(digit - '0');
  }
  return bytes;
}

// Empty as well if the size is above 2^63 - 1.
std::optional<std::uint64_t> size_of(PyObject* shape, std::uint64_t item) {
  if (shape == nullptr || !PyTuple_CheckExact(shape)) return std::nullopt;
  std::uint64_t size = item;
  for (Py_ssize_t i = 0; i < PyTuple_Size(shape); ++i) {
    const auto extent = number(PyTuple_GetItem(shape, i));
    if (!extent || (*extent != 0 && size > kMost / *extent)) return std::nullopt;
    size *= *extent;
  }
  return size;
}

// Whether an attribute of a tensor, or what a method without arguments gives, is that.
bool is_attribute(nb::handle object, PyObject* name, PyObject* wanted) {
  const nb::object found = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!found.is_valid()) PyErr_Clear();
  return found.ptr() == wanted;
}

nb::object called(nb::handle object, PyObject* name) {
  nb::object found = nb::steal(PyObject_CallMethodObjArgs(object.ptr(), name, nullptr));
  if (!found.is_valid()) PyErr_Clear();
  return found;
}

// What is used of the torch that the program imported. It is looked up once.
struct Torch {
  PyObject* tensor = nullptr;
  PyObject* current_stream = nullptr;           // of a device's index; null: this torch has none
  PyObject* strided = nullptr;                  // null: this torch has no such layout
  const DLPackExchangeAPI* exchange = nullptr;  // null: before 2.10
  PyObject *is_cuda, *is_cpu, *requires_grad, *is_contiguous, *data_ptr, *nbytes, *get_device;
  PyObject *is_conj, *is_neg, *layout, *shape, *stride, *dtype;
};

const Torch* torch_names(PyObject* module) {
  static Torch* known = nullptr;
  static PyObject* known_module = nullptr;  // tests put others in its place
  if (known_module == module) return known;
  PyObject* const tensor = PyObject_GetAttrString(module, "Tensor");
  if (tensor == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  auto* const names = new Torch;  // never freed
  names->tensor = tensor;
  names->exchange = exchange_api(tensor);
  const nb::object native = nb::steal(PyObject_GetAttrString(module, "_C"));
  if (native.is_valid()) names->current_stream = PyObject_GetAttrString(native.ptr(), "_cuda_getCurrentRawStream");
  PyErr_Clear();
  names->strided = PyObject_GetAttrString(module, "strided");
  PyErr_Clear();
  names->is_conj = PyUnicode_InternFromString("is_conj");
  names->is_neg = PyUnicode_InternFromString("is_neg");
  names->layout = PyUnicode_InternFromString("layout");
  names->shape = PyUnicode_InternFromString("shape");
  names->stride = PyUnicode_InternFromString("stride");
  names->dtype = PyUnicode_InternFromString("dtype");
  names->is_cuda = PyUnicode_InternFromString("is_cuda");
  names->is_cpu = PyUnicode_InternFromString("is_cpu");
  names->requires_grad = PyUnicode_InternFromString("requires_grad");
  names->is_contiguous = PyUnicode_InternFromString("is_contiguous");
  names->data_ptr = PyUnicode_InternFromString("data_ptr");
  names->nbytes = PyUnicode_InternFromString("nbytes");
  names->get_device = PyUnicode_InternFromString("get_device");
  Py_INCREF(module);
  known_module = module;
  return known = names;
}

// Null: it has not been imported.
const Torch* imported_torch() {
  static PyObject* const name = PyUnicode_InternFromString("torch");
  PyObject* const module = PyDict_GetItem(PyImport_GetModuleDict(), name);  // borrowed
  return module != nullptr ? torch_names(module) : nullptr;
}

nb::object attribute(nb::handle object, PyObject* name) {
  nb::object found = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!found.is_valid()) PyErr_Clear();
  return found;
}

// The element type that an object of a library stands for. The objects are few, and live as long as the library.
std::optional<Dtype> dtype_of_object(const nb::object& object) {
  if (!object.is_valid()) return std::nullopt;
  static auto& known = *new std::vector<std::pair<PyObject*, Dtype>>;
  for (const auto& [seen, dtype] : known)
    if (seen == object.ptr()) return dtype;
  constexpr std::size_t kMostKnown = 64;
  try {
    const auto code = nb::cast<int>(python_part("damacy.halo._dtypes", "code_of")(object));
    if (known.size() < kMostKnown) known.emplace_back(object.inc_ref().ptr(), static_cast<Dtype>(code));
    return static_cast<Dtype>(code);
  } catch (const nb::python_error&) {
    return std::nullopt;
  }
}

// A tuple of integers, each times `unit`.
std::optional<Dims> usual_dims(PyObject* tuple, std::int64_t unit = 1) {
  if (tuple == nullptr || !PyTuple_Check(tuple) || PyTuple_Size(tuple) > static_cast<Py_ssize_t>(kMaxRank))
    return std::nullopt;
  Dims dims;
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) {
    PyObject* const item = PyTuple_GetItem(tuple, i);
    if (!PyLong_CheckExact(item)) return std::nullopt;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow != 0 || !is_usual(value)) return std::nullopt;
    dims.push_back(value * unit);
  }
  return dims;
}

std::optional<std::uint64_t> count_of(const Dims& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape.span()) {
    if (extent < 0 || (extent != 0 && count > kMost / 16 / static_cast<std::uint64_t>(extent))) return std::nullopt;
    count *= static_cast<std::uint64_t>(extent);
  }
  return count;
}

std::optional<ArrayLayout> layout_of_tensor(nb::handle tensor, const Torch& torch) {
  // DLPack has no field for a tensor that stands for negated elements.
  if (torch.exchange != nullptr && called(tensor, torch.is_neg).ptr() == Py_False)
    if (auto found = tensor_layout(*torch.exchange, tensor)) return found;
  const bool on_device = is_attribute(tensor, torch.is_cuda, Py_True);
  if (torch.strided == nullptr || (!on_device && !is_attribute(tensor, torch.is_cpu, Py_True)) ||
      !is_attribute(tensor, torch.layout, torch.strided) || called(tensor, torch.is_conj).ptr() != Py_False ||
      called(tensor, torch.is_neg).ptr() != Py_False)
    return std::nullopt;
  const auto dtype = dtype_of_object(attribute(tensor, torch.dtype));
  if (!dtype) return std::nullopt;
  const auto shape = usual_dims(attribute(tensor, torch.shape).ptr());
  const auto strides = usual_dims(called(tensor, torch.stride).ptr(), static_cast<std::int64_t>(size_of(*dtype)));
  const auto address = number(called(tensor, torch.data_ptr).ptr());
  std::optional<int> device;
  if (on_device) {
    const auto index = number(called(tensor, torch.get_device).ptr());
    if (!index) return std::nullopt;
    device = static_cast<int>(*index);
  }
  const auto count = shape ? count_of(*shape) : std::nullopt;
  if (!count || !strides || strides->size() != shape->size() || !address || (*count > 0 && *address == 0))
    return std::nullopt;
  return ArrayLayout{*address, *shape, *strides, *dtype, device, true, std::nullopt};
}

// Whether it is of NumPy's own class.
bool is_numpy(nb::handle array) {
  static PyObject* const ndarray = python_part("numpy", "ndarray").release().ptr();
  return reinterpret_cast<PyObject*>(Py_TYPE(array.ptr())) == ndarray;
}

std::optional<ArrayLayout> layout_of_numpy(nb::handle array) {
  static PyObject* const dtype_name = PyUnicode_InternFromString("dtype");
  static PyObject* const strides_name = PyUnicode_InternFromString("strides");
  const auto dtype = dtype_of_object(attribute(array, dtype_name));
  const auto strides = usual_dims(attribute(array, strides_name).ptr());  // a buffer has others for axes of one element
  Py_buffer view;
  if (!dtype || !strides) return std::nullopt;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  ArrayLayout layout{0, {}, *strides, *dtype, std::nullopt, view.readonly == 0, std::nullopt};
  for (std::size_t axis = 0; axis < strides->size(); ++axis) layout.shape.push_back(view.shape[axis]);
  const auto count = count_of(layout.shape);
  if (count.value_or(0) > 0) layout.address = reinterpret_cast<std::uint64_t>(view.buf);
  PyBuffer_Release(&view);
  if (!count) return std::nullopt;
  return layout;
}

// CUDA's index: `array.device`, or the `id` of that.
std::optional<int> device_index(nb::handle array) {
  static PyObject* const device = PyUnicode_InternFromString("device");
  static PyObject* const id = PyUnicode_InternFromString("id");
  nb::object found = attribute(array, device);
  if (found.is_valid() && !PyLong_CheckExact(found.ptr())) found = attribute(found, id);
  const auto index = found.is_valid() ? number(found.ptr()) : std::nullopt;
  if (!index || *index > 1023) return std::nullopt;
  return static_cast<int>(*index);
}

std::optional<ArrayLayout> layout_of_interface(nb::handle array) {
  static PyObject* const name = PyUnicode_InternFromString("__cuda_array_interface__");
  static PyObject* const type_name = PyUnicode_InternFromString("dtype");
  const nb::object interface = attribute(array, name);
  if (!interface.is_valid() || !PyDict_CheckExact(interface.ptr())) return std::nullopt;
  PyObject* const dict = interface.ptr();
  static const auto& names = *new Names;
  const auto version = number(entry(dict, names.version));
  if (!version || *version > 3 || entry(dict, names.mask) != nullptr) return std::nullopt;
  const auto dtype = dtype_of_object(attribute(array, type_name));
  if (!dtype) return std::nullopt;
  const std::uint64_t item = item_bytes(entry(dict, names.typestr)).value_or(0);
  const auto shape = usual_dims(entry(dict, names.shape));
  const auto count = shape ? count_of(*shape) : std::nullopt;
  PyObject* const data = entry(dict, names.data);
  if (item != size_of(*dtype) || !count || data == nullptr || !PyTuple_CheckExact(data) || PyTuple_Size(data) != 2)
    return std::nullopt;
  const auto address = number(PyTuple_GetItem(data, 0));
  PyObject* const read_only = PyTuple_GetItem(data, 1);
  const std::uint64_t bytes = *count * item;
  if (!address || (bytes > 0 && *address == 0) || bytes > ~*address || !PyBool_Check(read_only)) return std::nullopt;
  ArrayLayout layout{
      bytes > 0 ? *address : 0, *shape,      halo::c_strides(*shape, static_cast<std::int64_t>(item)), *dtype, 0,
      read_only == Py_False,    std::nullopt};
  if (PyObject* const strides = entry(dict, names.strides); strides != nullptr) {
    const auto given = usual_dims(strides);
    if (!given || given->size() != shape->size()) return std::nullopt;
    layout.strides = *given;
  }
  if (PyObject* const stream = entry(dict, names.stream); stream != nullptr) {
    layout.stream = number(stream);
    if (!layout.stream || *layout.stream == 0) return std::nullopt;
  }
  const auto device = device_index(array);
  if (!device) return std::nullopt;
  layout.device = *device;
  return layout;
}

}  // namespace

std::optional<ArrayLayout> array_layout(nb::handle array) {
  if (is_numpy(array)) return layout_of_numpy(array);
  if (PyObject_CheckBuffer(array.ptr()) != 0) return std::nullopt;  // host memory
  const Torch* const torch = imported_torch();
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(array.ptr()));
  if (torch != nullptr && type == torch->tensor) return layout_of_tensor(array, *torch);
  if (is_tensor(array)) return std::nullopt;
  return layout_of_interface(array);
}

bool is_tensor(nb::handle object) {
  const Torch* const torch = imported_torch();
  return torch != nullptr && PyType_Check(torch->tensor) != 0 &&
         PyType_IsSubtype(Py_TYPE(object.ptr()), reinterpret_cast<PyTypeObject*>(torch->tensor)) != 0;
}

bool is_plain_array(nb::handle array) {
  if (is_numpy(array)) return true;
  const Torch* const torch = imported_torch();
  if (torch == nullptr || reinterpret_cast<PyObject*>(Py_TYPE(array.ptr())) != torch->tensor) return false;
  static PyObject* const dims = PyUnicode_InternFromString("dims");
  const nb::object own = nb::steal(PyObject_GenericGetDict(array.ptr(), nullptr));
  if (!own.is_valid()) PyErr_Clear();
  return own.is_valid() && PyDict_GetItem(own.ptr(), dims) == nullptr;
}

std::optional<ArrayBytes> usual_interface(nb::handle interface) {
  PyObject* const dict = interface.ptr();
  if (!PyDict_CheckExact(dict)) return std::nullopt;
  static const auto& names = *new Names;
  const auto version = number(entry(dict, names.version));
  if (!version || *version > 3 || entry(dict, names.mask) != nullptr || entry(dict, names.strides) != nullptr)
    return std::nullopt;
  const auto item = item_bytes(entry(dict, names.typestr));
  if (!item) return std::nullopt;
  const auto size = size_of(entry(dict, names.shape), *item);
  PyObject* const data = entry(dict, names.data);
  if (!size || data == nullptr || !PyTuple_CheckExact(data) || PyTuple_Size(data) != 2) return std::nullopt;
  const auto pointer = number(PyTuple_GetItem(data, 0));
  PyObject* const read_only = PyTuple_GetItem(data, 1);
  if (!pointer || *pointer == 0 || *size > ~*pointer || !PyBool_Check(read_only)) return std::nullopt;
  ArrayBytes found{*size > 0 ? *pointer : 0, *size, read_only == Py_True, std::nullopt, true, {}};
  if (PyObject* const stream = entry(dict, names.stream); stream != nullptr) {
    found.stream = number(stream);
    if (!found.stream || *found.stream == 0) return std::nullopt;
  }
  return found;
}

std::optional<ArrayBytes> torch_memory(nb::handle object) {
  const Torch* const torch = imported_torch();
  if (torch == nullptr || reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) != torch->tensor ||
      !is_attribute(object, torch->requires_grad, Py_False))
    return std::nullopt;
  if (torch->exchange != nullptr)
    if (auto found = tensor_bytes(*torch->exchange, object)) return found;
  if (torch->current_stream == nullptr || !is_attribute(object, torch->is_cuda, Py_True) ||
      called(object, torch->is_contiguous).ptr() != Py_True)
    return std::nullopt;
  const auto pointer = number(called(object, torch->data_ptr).ptr());
  const nb::object bytes = nb::steal(PyObject_GetAttr(object.ptr(), torch->nbytes));
  if (!bytes.is_valid()) PyErr_Clear();
  const auto size = number(bytes.ptr());
  if (!pointer || !size || (*size > 0 && *pointer == 0) || *size > kMost) return std::nullopt;
  const nb::object index = called(object, torch->get_device);
  if (!index.is_valid()) return std::nullopt;
  const nb::object handle = nb::steal(PyObject_CallFunctionObjArgs(torch->current_stream, index.ptr(), nullptr));
  if (!handle.is_valid()) PyErr_Clear();  // in a forked child: the driver's error, which follows, says more
  const auto stream = number(handle.ptr());
  if (!stream) return std::nullopt;
  return ArrayBytes{*size > 0 ? *pointer : 0, *size, false, *stream, true, {}};
}

bool has_current_stream(nb::handle object) {
  const nb::object module =
      nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())), "__module__"));
  if (!module.is_valid()) PyErr_Clear();
  if (!module.is_valid() || !PyUnicode_Check(module.ptr())) return true;
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(module.ptr(), &length);
  if (text == nullptr) {
    PyErr_Clear();
    return true;
  }
  const std::string_view name(text, static_cast<std::size_t>(length));
  const std::string_view library = name.substr(0, name.find('.'));
  return library == "torch" || library == "cupy";
}

}  // namespace damacy::python
