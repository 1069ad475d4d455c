#include "damacy/zarr/array_selection.h"

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

// The length to which all lists are repeated.
std::size_t common_length(const std::vector<PointSelection::Indices>& axes) {
  std::size_t common = 1;
  for (const auto& list : axes) {
    if (list.size() == 1 || list.size() == common) continue;
    if (common != 1)
      throw Error(Status::inval,
                  formatted("lists of {} and {} indices: points need one length, or one index", common, list.size()),
                  "aabb");
    common = list.size();
  }
  return common;
}

std::int64_t inside(std::int64_t index, std::int64_t extent, std::size_t axis) {
  if (index < -extent || index >= extent)
    throw Error(Status::inval, formatted("index {} is outside axis {} of {} elements", index, axis, extent), "aabb");
  return index < 0 ? index + extent : index;
}

}  // namespace

PointSelection PointSelection::of_mask(const std::vector<bool>& mask, const Dims& shape) {
  if (product(shape.span()) != static_cast<std::int64_t>(mask.size()))
    throw Error(Status::inval,
                formatted("a mask of {} elements for an array of shape {}", mask.size(), tuple_text(shape.span())),
                "aabb");
  std::vector<Indices> axes(shape.size());
  for (std::size_t at = 0; at < mask.size(); ++at) {
    if (!mask[at]) continue;
    auto rest = static_cast<std::int64_t>(at);
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) axes[axis].push_back(rest % shape[axis]);
  }
  return PointSelection(std::move(axes));
}

ResolvedPoints PointSelection::of(const Dims& shape) const {
  if (axes_.size() != shape.size() || axes_.empty())
    throw Error(Status::rank,
                formatted("points with {} coordinates, the array has {} axes", axes_.size(), shape.size()), "rank");
  ResolvedPoints out{{}, common_length(axes_)};
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    Indices& all = out.axes.emplace_back();
    all.reserve(out.count);
    for (const std::int64_t index : axes_[axis]) all.push_back(inside(index, shape[axis], axis));
    if (axes_[axis].size() == 1) all.resize(out.count, all[0]);
  }
  return out;
}

}  // namespace damacy
