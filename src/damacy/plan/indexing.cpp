#include "damacy/plan/indexing.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace damacy {
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

// Of an array with at most one axis longer than 1, which is `axis`.
bool is_along(const IndexArray& array, std::size_t axis) {
  for (std::size_t i = 0; i < array.shape.size(); ++i)
    if (i != axis && array.shape[i] != 1) return false;
  return true;
}

std::optional<Axis> list_of(const IndexArray& array, std::size_t axis, std::int64_t extent) {
  const bool is_mask = array.of == IndexArray::Of::mask;
  if (!is_along(array, axis) || (is_mask && array.shape[axis] != extent)) return std::nullopt;
  Axis found{.kind = Axis::Kind::list};
  const std::byte* at = array.data;
  for (std::int64_t i = 0; i < array.shape[axis]; ++i, at += array.strides[axis]) {
    if (is_mask) {
      if (*at != std::byte{0}) found.at.push_back(i);
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

std::int64_t cut(std::int64_t bound, std::int64_t extent) {
  if (bound < 0) return bound < -extent ? 0 : bound + extent;
  return std::min(bound, extent);
}

std::optional<Axis> slice_of(const IndexSlice& slice, std::int64_t extent) {
  if (slice.step < 1) return std::nullopt;
  const std::int64_t start = cut(slice.start, extent);
  const std::int64_t stop = cut(slice.stop, extent);
  const std::int64_t count = start < stop ? (stop - start - 1) / slice.step + 1 : 0;
  return Axis{Axis::Kind::slice, start, slice.step, count, {}};
}

std::optional<Axis> index_of(std::int64_t index, std::int64_t extent) {
  if (index < 0 || index >= extent) return std::nullopt;
  return Axis{.start = index};
}

const IndexArray* array_of(const IndexEntry& entry) noexcept {
  return std::get_if<IndexArray>(&entry);
}

// NumPy keeps axes in their order when there is at most one array, and ints, which join in as arrays do, stand next to
// it; or when all entries are arrays in the manner of np.ix_.
std::optional<std::vector<Axis>> axes_of(std::span<const IndexEntry> entries, std::span<const std::int64_t> shape) {
  if (entries.size() > shape.size()) return std::nullopt;
  const auto arrays =
      static_cast<std::size_t>(std::ranges::count_if(entries, [](const auto& e) { return array_of(e); }));
  std::vector<Axis> axes;
  std::ptrdiff_t array_at = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i >= entries.size()) {
      axes.push_back({Axis::Kind::slice, 0, 1, shape[i], {}});
      continue;
    }
    std::optional<Axis> axis;
    if (const IndexArray* const array = array_of(entries[i])) {
      const bool is_ix = arrays == entries.size() && array->shape.size() == entries.size();
      if (!is_ix && !(arrays == 1 && array->shape.size() == 1)) return std::nullopt;
      axis = list_of(*array, is_ix ? i : 0, shape[i]);
      array_at = static_cast<std::ptrdiff_t>(i);
    } else if (const auto* const slice = std::get_if<IndexSlice>(&entries[i])) {
      axis = slice_of(*slice, shape[i]);
    } else {
      axis = index_of(std::get<std::int64_t>(entries[i]), shape[i]);
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
std::optional<std::vector<Axis>> points_of(std::span<const IndexEntry> entries, std::span<const std::int64_t> shape) {
  if (shape.size() < 2 || entries.size() != shape.size()) return std::nullopt;
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const IndexArray* const array = array_of(entries[i]);
    if (array == nullptr || array->shape.size() != 1) return std::nullopt;
    auto axis = list_of(*array, 0, shape[i]);
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

std::optional<std::vector<AxisRuns>> runs_of(std::span<const IndexEntry> chunk_selection,
                                             std::span<const IndexEntry> out_selection, const Dims& chunk_shape,
                                             const OutLayout& out, std::span<const std::int64_t> drop_axes) {
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

std::optional<std::vector<std::vector<AxisRuns>>> runs_of_points(std::span<const IndexEntry> chunk_selection,
                                                                 std::span<const IndexEntry> out_selection,
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

}  // namespace damacy
