#include "selections.h"

#include <string_view>
#include <type_traits>

namespace damacy::python {
namespace {

static_assert(std::is_same_v<Py_ssize_t, std::int64_t>, "shapes and strides of buffers are viewed as they are");

// An entry that is not a slice, int or NumPy scalar is treated as an array.
bool is_array(nb::handle entry) {
  if (PySlice_Check(entry.ptr()) || PyLong_Check(entry.ptr())) return false;
  nb::object ndim = nb::steal(PyObject_GetAttrString(entry.ptr(), "ndim"));
  if (!ndim.is_valid()) {
    PyErr_Clear();
    return false;
  }
  return PyLong_AsLong(ndim.ptr()) > 0;
}

std::optional<IndexEntry> array_of(nb::handle array, std::forward_list<BufferView>& views) {
  BufferView& view = views.emplace_front();
  if (!view.take(array, PyBUF_FULL_RO)) {
    PyErr_Clear();
    return std::nullopt;
  }
  const std::string_view format(view->format == nullptr ? "B" : view->format);
  const bool is_mask = format == "?";
  if (!is_mask && !(view->itemsize == 8 && (format == "l" || format == "q"))) return std::nullopt;
  const auto rank = static_cast<std::size_t>(view->ndim);
  return IndexArray{is_mask ? IndexArray::Of::mask : IndexArray::Of::integers,
                    static_cast<const std::byte*>(view->buf),
                    {view->shape, rank},
                    {view->strides, rank}};
}

std::optional<IndexEntry> slice_of(nb::handle slice) {
  IndexSlice found;
  if (PySlice_Unpack(slice.ptr(), &found.start, &found.stop, &found.step) < 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return found;
}

std::optional<IndexEntry> number_of(nb::handle number) {
  if (PyBool_Check(number.ptr())) return std::nullopt;
  const std::int64_t index = PyNumber_AsSsize_t(number.ptr(), nullptr);
  if (index == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return std::nullopt;
  }
  return index;
}

std::optional<IndexEntry> entry_of(nb::handle entry, std::forward_list<BufferView>& views) {
  if (is_array(entry)) return array_of(entry, views);
  return PySlice_Check(entry.ptr()) ? slice_of(entry) : number_of(entry);
}

}  // namespace

std::optional<Index> index_of(nb::handle selection) {
  nb::tuple given;
  if (PyTuple_Check(selection.ptr()))
    given = nb::borrow<nb::tuple>(selection);
  else
    given = nb::make_tuple(selection);
  Index index;
  index.entries.reserve(given.size());
  for (const nb::handle one : given) {
    auto entry = entry_of(one, index.views);
    if (!entry) return std::nullopt;
    index.entries.push_back(std::move(*entry));
  }
  return index;
}

}  // namespace damacy::python
