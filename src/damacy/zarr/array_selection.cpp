#include "damacy/zarr/array_selection.h"

#include <algorithm>
#include <span>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

using Stretches = std::vector<AxisStretch>;

std::int64_t inside(std::int64_t index, std::int64_t extent, std::size_t axis) {
  if (index < -extent || index >= extent)
    throw Error(Status::inval, formatted("index {} is outside axis {} of {} elements", index, axis, extent), "aabb");
  return index < 0 ? index + extent : index;
}

// A bound of a slice, cut to [least, most].
std::int64_t bound(std::optional<std::int64_t> given, std::int64_t otherwise, std::int64_t extent, std::int64_t least,
                   std::int64_t most) {
  if (!given) return otherwise;
  if (*given < 0) return *given < -extent ? least : std::clamp(*given + extent, least, most);
  return std::min(*given, most);
}

Stretches stretches_of(const Slice& slice, std::int64_t extent, std::size_t axis) {
  if (slice.step == 0)
    throw Error(Status::inval, formatted("the slice of axis {} has step 0: say 1, or -1 to count down", axis), "aabb");
  const bool falls = slice.step < 0;
  const std::int64_t least = falls ? -1 : 0, most = falls ? extent - 1 : extent;
  const std::int64_t start = bound(slice.start, falls ? most : least, extent, least, most);
  const std::int64_t stop = bound(slice.stop, falls ? least : most, extent, least, most);
  const bool is_empty = falls ? start <= stop : start >= stop;
  if (is_empty) return {{0, 1, 0}};
  // The distance is unsigned, because the step may be the least number, which has no positive counterpart.
  const auto distance = static_cast<std::uint64_t>(falls ? start - stop : stop - start);
  const std::uint64_t step =
      falls ? ~static_cast<std::uint64_t>(slice.step) + 1 : static_cast<std::uint64_t>(slice.step);
  const auto count = static_cast<std::int64_t>((distance - 1) / step + 1);
  return {{start, count == 1 ? 1 : slice.step, count}};
}

Stretches stretches_of(std::span<const std::int64_t> indices) {
  Stretches found;
  for (const std::int64_t index : indices) {
    if (!found.empty()) {
      AxisStretch& last = found.back();
      const std::int64_t step = index - (last.start + (last.count - 1) * last.step);
      if (last.count == 1 || step == last.step) {
        last.step = step;
        ++last.count;
        continue;
      }
    }
    found.push_back({index, 1, 1});
  }
  return found;
}

Stretches stretches_of(const std::vector<std::int64_t>& list, std::int64_t extent, std::size_t axis) {
  std::vector<std::int64_t> indices;
  indices.reserve(list.size());
  for (const std::int64_t index : list) indices.push_back(inside(index, extent, axis));
  return stretches_of(indices);
}

Stretches stretches_of(const std::vector<bool>& mask, std::int64_t extent, std::size_t axis) {
  if (static_cast<std::int64_t>(mask.size()) != extent)
    throw Error(Status::inval, formatted("a mask of {} elements for axis {} of {}", mask.size(), axis, extent), "aabb");
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i]) indices.push_back(static_cast<std::int64_t>(i));
  return stretches_of(indices);
}

// One index for each axis: an Ellipsis becomes slices.
std::vector<AxisIndex> one_an_axis(const std::vector<AxisIndex>& given, std::size_t rank) {
  const auto is_rest = [](const AxisIndex& index) { return std::holds_alternative<Ellipsis>(index); };
  const auto rests = static_cast<std::size_t>(std::ranges::count_if(given, is_rest));
  if (rests > 1) throw Error(Status::inval, "the selection has more than one Ellipsis", "aabb");
  const std::size_t used = given.size() - rests;
  if (used > rank)
    throw Error(Status::rank, formatted("the selection has {} indices, the array has {} axes", used, rank), "rank");
  std::vector<AxisIndex> all(rank, Slice{});
  const auto rest = std::ranges::find_if(given, is_rest);
  std::copy(given.begin(), rest, all.begin());
  if (rest != given.end()) std::copy_backward(rest + 1, given.end(), all.end());
  return all;
}

}  // namespace

ResolvedSelection Selection::of(const Dims& shape) const {
  ResolvedSelection out;
  const std::vector<AxisIndex> axes = one_an_axis(axes_, shape.size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const std::int64_t extent = shape[axis];
    const bool is_number = std::holds_alternative<std::int64_t>(axes[axis]);
    Stretches stretches;
    if (const auto* const number = std::get_if<std::int64_t>(&axes[axis]))
      stretches = {{inside(*number, extent, axis), 1, 1}};
    else if (const auto* const slice = std::get_if<Slice>(&axes[axis]))
      stretches = stretches_of(*slice, extent, axis);
    else if (const auto* const list = std::get_if<std::vector<std::int64_t>>(&axes[axis]))
      stretches = stretches_of(*list, extent, axis);
    else
      stretches = stretches_of(std::get<std::vector<bool>>(axes[axis]), extent, axis);
    std::int64_t count = 0;
    for (const AxisStretch& stretch : stretches) count += stretch.count;
    out.axes.push_back(std::move(stretches));
    out.extents.push_back(count);
    if (!is_number) out.shape.push_back(count);
    out.keeps.push_back(!is_number);
  }
  return out;
}

}  // namespace damacy
