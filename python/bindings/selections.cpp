#include "selections.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "buffer_view.h"

namespace damacy::python {
namespace {

// One axis of a selection.
struct Axis {
  enum class Kind { index, slice, list };
  Kind kind = Kind::index;
  std::int64_t start = 0;  // index and slice
  std::int64_t step = 1;
  std::int64_t count = 1;
  std::vector<std::int64_t> at = {};  // list

  std::int64_t operator[](std::int64_t i) const {
    return kind == Kind::list ? at[static_cast<std::size_t>(i)] : start + i * step;
  }
};

bool take_view(BufferView& view, nb::handle object) {
  if (view.take(object, PyBUF_FULL_RO)) return true;
  PyErr_Clear();
  return false;
}

// Of an array with at most one axis longer than 1, which is `axis`.
bool is_along(const Py_buffer& view, int axis) {
  for (int i = 0; i < view.ndim; ++i)
    if (i != axis && view.shape[i] != 1) return false;
  return true;
}

std::optional<Axis> list_of(const Py_buffer& view, int axis, std::int64_t extent) {
  const std::string_view format(view.format == nullptr ? "B" : view.format);
  const bool is_mask = format == "?";
  if (!is_mask && !(view.itemsize == 8 && (format == "l" || format == "q"))) return std::nullopt;
  if (!is_along(view, axis) || (is_mask && view.shape[axis] != extent)) return std::nullopt;
  Axis found{.kind = Axis::Kind::list};
  const auto* at = static_cast<const char*>(view.buf);
  for (Py_ssize_t i = 0; i < view.shape[axis]; ++i, at += view.strides[axis]) {
    if (is_mask) {
      if (*at != 0) found.at.push_back(i);
      continue;
    }
    std::int64_t index = 0;
    std::memcpy(&index, at, sizeof index);
    if (index < 0 || index >= extent) return std::nullopt;
    found.at.push_back(index);
  }
  found.count = static_cast<std::int64_t>(found.at.size());
  return found;
}

std::optional<Axis> slice_of(nb::handle slice, std::int64_t extent) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(slice.ptr(), &start, &stop, &step) < 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (step < 1) return std::nullopt;
  const Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(extent), &start, &stop, step);
  return Axis{Axis::Kind::slice, start, step, count, {}};
}

std::optional<Axis> index_of(nb::handle number, std::int64_t extent) {
  if (PyBool_Check(number.ptr())) return std::nullopt;
  const Py_ssize_t index = PyNumber_AsSsize_t(number.ptr(), nullptr);
  if (index == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (index < 0 || index >= extent) return std::nullopt;
  return Axis{.start = index};
}

// An entry that is no slice, int or NumPy scalar is looked at as an array.
bool is_array(nb::handle entry) {
  if (PySlice_Check(entry.ptr()) || PyLong_Check(entry.ptr())) return false;
  nb::object ndim = nb::steal(PyObject_GetAttrString(entry.ptr(), "ndim"));
  if (!ndim.is_valid()) {
    PyErr_Clear();
    return false;
  }
  return PyLong_AsLong(ndim.ptr()) > 0;
}

// NumPy keeps axes in their order when there is at most one array, and ints, which join in as arrays do, stand next to
// it; or when all entries are arrays in the manner of np.ix_.
std::optional<std::vector<Axis>> axes_of(nb::handle selection, std::span<const std::int64_t> shape) {
  nb::tuple entries;
  if (PyTuple_Check(selection.ptr()))
    entries = nb::borrow<nb::tuple>(selection);
  else
    entries = nb::make_tuple(selection);
  const std::size_t given = entries.size();
  if (given > shape.size()) return std::nullopt;
  std::size_t arrays = 0;
  for (const nb::handle entry : entries) arrays += is_array(entry);
  std::vector<Axis> axes;
  std::ptrdiff_t array_at = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i >= given) {
      axes.push_back({Axis::Kind::slice, 0, 1, shape[i], {}});
      continue;
    }
    const nb::handle entry = entries[i];
    std::optional<Axis> axis;
    if (is_array(entry)) {
      BufferView view;
      if (!take_view(view, entry)) return std::nullopt;
      const bool is_ix = arrays == given && view->ndim == static_cast<int>(given);
      if (!is_ix && !(arrays == 1 && view->ndim == 1)) return std::nullopt;
      axis = list_of(*view, is_ix ? static_cast<int>(i) : 0, shape[i]);
      array_at = static_cast<std::ptrdiff_t>(i);
    } else {
      axis = PySlice_Check(entry.ptr()) ? slice_of(entry, shape[i]) : index_of(entry, shape[i]);
    }
    if (!axis) return std::nullopt;
    axes.push_back(std::move(*axis));
  }
  if (arrays == 1)  // a slice between an int and the array would move their axis to the front
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(axes.size()); ++i) {
      if (axes[static_cast<std::size_t>(i)].kind != Axis::Kind::index) continue;
      for (std::ptrdiff_t j = std::min(i, array_at) + 1; j < std::max(i, array_at); ++j)
        if (axes[static_cast<std::size_t>(j)].kind == Axis::Kind::slice) return std::nullopt;
    }
  return axes;
}

// Arrays of one dimension, one an axis, all of one length: the coordinates of points.
std::optional<std::vector<Axis>> points_of(nb::handle selection, std::span<const std::int64_t> shape) {
  if (!PyTuple_Check(selection.ptr()) || shape.size() < 2) return std::nullopt;
  const auto entries = nb::borrow<nb::tuple>(selection);
  if (entries.size() != shape.size()) return std::nullopt;
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!is_array(entries[i])) return std::nullopt;
    BufferView view;
    if (!take_view(view, entries[i]) || view->ndim != 1) return std::nullopt;
    auto axis = list_of(*view, 0, shape[i]);
    if (!axis || axis->count == 0 || axis->count != (i == 0 ? axis->count : axes[0].count)) return std::nullopt;
    axes.push_back(std::move(*axis));
  }
  return axes;
}

// How many points from `first` on differ along the last axis only.
std::int64_t in_a_row(const std::vector<Axis>& points, std::int64_t first) {
  std::int64_t last = first + 1;
  const auto follows = [&] {
    for (std::size_t axis = 0; axis + 1 < points.size(); ++axis)
      if (points[axis][last] != points[axis][first]) return false;
    return true;
  };
  while (last < points[0].count && follows()) ++last;
  return last - first;
}

AxisRuns runs_of_axis(const Axis& from, const Axis& to, std::int64_t stride) {
  if (from.count == 0) return {};
  if (from.kind != Axis::Kind::list && to.kind != Axis::Kind::list)
    return {{from.start, from.step, to.start * stride, to.step * stride, from.count}};
  std::vector<std::int64_t> source, target;
  for (std::int64_t i = 0; i < from.count; ++i) {
    source.push_back(from[i]);
    target.push_back(to[i] * stride);
  }
  return as_runs(source, target);
}

}  // namespace

std::optional<std::vector<AxisRuns>> runs_of(nb::handle chunk_selection, nb::handle out_selection,
                                             const Dims& chunk_shape, const OutLayout& out,
                                             const std::vector<std::int64_t>& drop_axes) {
  const auto from = axes_of(chunk_selection, chunk_shape.span());
  const auto to = axes_of(out_selection, out.shape);
  if (!from || !to) return std::nullopt;
  std::vector<AxisRuns> runs;
  std::size_t next = 0;  // axis of the output
  std::int64_t result_axis = 0;
  std::int64_t start = out.first;
  const auto take_indices = [&] {
    for (; next < to->size() && (*to)[next].kind == Axis::Kind::index; ++next)
      start += (*to)[next].start * out.strides[next];
  };
  for (const Axis& axis : *from) {
    const bool is_dropped =
        axis.kind != Axis::Kind::index && std::ranges::find(drop_axes, result_axis) != drop_axes.end();
    result_axis += axis.kind != Axis::Kind::index;
    if (axis.kind == Axis::Kind::index || is_dropped) {
      if (axis.count != 1) return std::nullopt;
      runs.push_back({{axis[0], 1, 0, 0, 1}});
      continue;
    }
    take_indices();
    if (next == to->size() || (*to)[next].count != axis.count) return std::nullopt;
    runs.push_back(runs_of_axis(axis, (*to)[next], out.strides[next]));
    ++next;
  }
  take_indices();
  if (next != to->size()) return std::nullopt;
  if (runs.empty()) return runs;
  for (Run& run : runs.front()) run.to += start;
  return runs;
}

std::optional<std::vector<std::vector<AxisRuns>>> runs_of_points(nb::handle chunk_selection, nb::handle out_selection,
                                                                 const Dims& chunk_shape, const OutLayout& out) {
  constexpr std::size_t kMost = 1 << 16;
  const auto from = points_of(chunk_selection, chunk_shape.span());
  const auto to = axes_of(out_selection, out.shape);
  if (!from || !to || to->size() != 1 || (*to)[0].count != (*from)[0].count) return std::nullopt;
  std::vector<std::vector<AxisRuns>> all;
  for (std::int64_t first = 0, count = 0; first < (*from)[0].count; first += count) {
    if (all.size() == kMost) return std::nullopt;
    count = in_a_row(*from, first);
    std::vector<AxisRuns>& runs = all.emplace_back();
    for (std::size_t axis = 0; axis + 1 < from->size(); ++axis) runs.push_back({{(*from)[axis][first], 1, 0, 0, 1}});
    std::vector<std::int64_t> source, target;
    for (std::int64_t i = first; i < first + count; ++i) {
      source.push_back(from->back()[i]);
      target.push_back((*to)[0][i] * out.strides[0]);
    }
    runs.push_back(as_runs(source, target));
    for (Run& run : runs.front()) run.to += out.first;
  }
  return all;
}

}  // namespace damacy::python
