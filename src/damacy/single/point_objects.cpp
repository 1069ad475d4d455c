// Points are sorted, so that those of an object follow one another and neighbours become one piece.
#include "damacy/single/point_objects.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/plan/indexing.h"

namespace damacy {
namespace {

constexpr std::size_t kAtOnce = 1 << 16;  // as many selections as runs_of_points() gives

using Order = std::vector<std::size_t>;  // numbers of points

// The object of a point along an axis, and the index in it.
struct Split {
  std::span<const std::int64_t> indices;
  std::int64_t extent;  // of objects

  std::int64_t object(std::size_t point) const { return indices[point] / extent; }
  std::int64_t within(std::size_t point) const { return indices[point] % extent; }
};

bool same_object(const std::vector<Split>& axes, std::size_t a, std::size_t b) {
  return std::ranges::all_of(axes, [&](const Split& axis) { return axis.object(a) == axis.object(b); });
}

// By object, then by coordinates.
Order sorted_points(const std::vector<Split>& axes, std::size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    for (const Split& axis : axes)
      if (axis.object(a) != axis.object(b)) return axis.object(a) < axis.object(b);
    for (const Split& axis : axes)
      if (axis.indices[a] != axis.indices[b]) return axis.indices[a] < axis.indices[b];
    return a < b;
  });
  return order;
}

IndexArray view_of(const std::vector<std::int64_t>& list, const std::int64_t& length) {
  static constexpr std::int64_t kStride = sizeof(std::int64_t);
  return {IndexArray::Of::integers, reinterpret_cast<const std::byte*>(list.data()), {&length, 1}, {&kStride, 1}};
}

std::string key_of(const Array& array, const std::vector<Split>& axes, std::size_t point) {
  const ArrayMetadata& metadata = array.metadata();
  Dims chunk;  // the first in the object
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    chunk.push_back(axes[axis].object(point) * (metadata.shard_shape[axis] / metadata.chunk_shape[axis]));
  return array.key_of_shard(array.shard_of_chunk(chunk));
}

// The copies of some points of one object.
std::vector<std::vector<AxisRuns>> runs_of(const Array& array, const std::vector<Split>& axes,
                                           std::span<const std::size_t> points, const OutLayout& out) {
  const auto length = static_cast<std::int64_t>(points.size());
  std::vector<std::vector<std::int64_t>> lists;
  for (const Split& axis : axes) {
    lists.emplace_back();
    for (const std::size_t point : points) lists.back().push_back(axis.within(point));
  }
  lists.emplace_back(points.begin(), points.end());
  std::vector<IndexEntry> from;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) from.emplace_back(view_of(lists[axis], length));
  const IndexEntry to = view_of(lists.back(), length);
  auto runs = runs_of_points(from, {&to, 1}, array.metadata().shard_shape, out);
  if (!runs) throw Error(Status::inval, "points that no copy can be made of", "aabb");
  return std::move(*runs);
}

}  // namespace

std::vector<SelectedObject> objects_of_points(const Array& array, const ResolvedPoints& points, std::int64_t first,
                                              std::int64_t step) {
  std::vector<Split> axes;
  for (std::size_t axis = 0; axis < array.rank(); ++axis)
    axes.push_back({points.axes[axis], array.metadata().shard_shape[axis]});
  const Order order = sorted_points(axes, points.count);
  const OutLayout out{{static_cast<std::int64_t>(points.count)}, {step}, first};
  std::vector<SelectedObject> objects;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && end - begin < kAtOnce && same_object(axes, order[begin], order[end])) ++end;
    const std::string key = key_of(array, axes, order[begin]);
    for (auto& runs : runs_of(array, axes, std::span(order).subspan(begin, end - begin), out))
      objects.push_back({key, std::move(runs)});
    if (objects.size() > Limits::chunks_per_sample)
      throw Error(Status::inval, formatted("more pieces of the selection than the limit {}", Limits::chunks_per_sample),
                  "limit");
  }
  return objects;
}

}  // namespace damacy
