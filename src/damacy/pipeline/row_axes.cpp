#include "damacy/pipeline/row_axes.h"

#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

[[noreturn]] void refuse(std::string why) {
  throw Error(Status::inval, std::move(why), "arguments");
}

// Of a key that is a place.
std::optional<std::size_t> place_of(std::int64_t place, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (place < -count || place >= count) return std::nullopt;
  return static_cast<std::size_t>(place < 0 ? place + count : place);
}

// Two keys of one axis, such as its name and its number, would move or reverse it twice.
void require_distinct(std::span<const AxisKey> keys, const RowAxes& axes, const char* what) {
  std::vector<const AxisKey*> found(axes.axes().size());
  for (const AxisKey& key : keys) {
    const auto place = axes.find(key);
    if (!place) continue;
    if (found[*place] != nullptr)
      refuse(formatted("{}: {} and {} are the same axis of the array", what, text_of(*found[*place]), text_of(key)));
    found[*place] = &key;
  }
}

}  // namespace

AxisNames::AxisNames(const ArraySpec& spec, const DimensionNames& of_metadata, std::size_t rank) : names_(rank) {
  if (!spec.axes.empty() && spec.axes.size() != rank)
    refuse(formatted("axes names {} axes, the array has {}", spec.axes.size(), rank));
  for (std::size_t i = 0; i < rank; ++i) {
    if (!spec.axes.empty())
      names_[i] = spec.axes[i];
    else if (i < of_metadata.size())
      names_[i] = of_metadata[i];
  }
}

void AxisNames::require_names() const {
  const bool none = std::ranges::none_of(names_, [](const auto& name) { return name.has_value(); });
  if (none) refuse("the axes of the array have no names: count from the last (-1), or say ArraySpec(axes=…)");
}

std::size_t AxisNames::find(const AxisKey& key, const char* what) const {
  if (key.name.empty()) {
    if (const auto place = place_of(key.place, rank())) return *place;
    refuse(formatted("{}: the array has {} axes, there is no axis {}", what, rank(), key.place));
  }
  require_names();
  const auto found = std::ranges::find(names_, std::optional(key.name));
  if (found == names_.end()) refuse(formatted("{}: the array has no axis '{}'; it has {}", what, key.name, text()));
  return static_cast<std::size_t>(found - names_.begin());
}

std::string AxisNames::text() const {
  std::string all;
  for (const auto& name : names_) all += formatted("{}{}", all.empty() ? "" : ", ", name ? "'" + *name + "'" : "None");
  return all;
}

RowAxes::RowAxes(const ArraySpec& spec, const AxisNames& names, const Dims& part_extents,
                 std::optional<std::int64_t> stack)
    : names_(names) {
  const std::size_t rank = part_extents.size();
  std::vector<Axis> all;  // of the part, the stack's first
  if (stack) all.push_back({Axis::Kind::stack, 0, *stack, 0});
  for (std::size_t i = 0; i < rank; ++i) all.push_back({Axis::Kind::stored, i, part_extents[i], 0});
  if (!spec.order) {
    axes_ = std::move(all);
  } else {
    std::vector<bool> is_used(all.size());
    for (const std::optional<AxisKey>& key : *spec.order) {
      if (!key) {
        axes_.push_back({Axis::Kind::added, 0, 1, 0});
        continue;
      }
      const bool is_stack = stack && key->name.empty() && key->place == -static_cast<std::int64_t>(all.size());
      const std::size_t at = is_stack ? 0 : names_.find(*key, "order") + (stack ? 1 : 0);
      if (is_used[at]) refuse(formatted("order: {} occurs twice", text_of(*key)));
      is_used[at] = true;
      axes_.push_back(all[at]);
    }
    for (std::size_t at = 0; at < all.size(); ++at) {
      if (is_used[at] || all[at].extent == 1) continue;
      const std::string name = all[at].kind == Axis::Kind::stack ? "the stack's axis"
                               : names_[all[at].stored]          ? "axis '" + *names_[all[at].stored] + "'"
                                                                 : formatted("axis {}", all[at].stored);
      refuse(formatted("order: {} has extent {} and is left out", name, all[at].extent));
    }
  }
  if (axes_.size() > kMaxRank) refuse(formatted("order: a row of {} axes, the limit is {}", axes_.size(), kMaxRank));
  const Dims strides = row_major_strides(extents());
  for (std::size_t i = 0; i < axes_.size(); ++i) axes_[i].stride = strides[i];
}

Dims RowAxes::extents() const noexcept {
  Dims extents;
  for (const Axis& axis : axes_) extents.push_back(axis.extent);
  return extents;
}

Dims RowAxes::stored_strides() const noexcept {
  Dims strides(names_.rank(), 0);  // one that was dropped has one position
  for (const Axis& axis : axes_)
    if (axis.kind == Axis::Kind::stored) strides[axis.stored] = axis.stride;
  return strides;
}

std::int64_t RowAxes::stack_stride() const noexcept {
  for (const Axis& axis : axes_)
    if (axis.kind == Axis::Kind::stack) return axis.stride;
  return 0;
}

std::optional<std::size_t> RowAxes::find(const AxisKey& key) const {
  if (key.name.empty()) {
    if (key.place < 0) return place_of(key.place, axes_.size());
    const auto found = std::ranges::find_if(axes_, [&](const Axis& axis) {
      return axis.kind == Axis::Kind::stored && static_cast<std::int64_t>(axis.stored) == key.place;
    });
    return found == axes_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - axes_.begin()));
  }
  names_.require_names();
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].kind == Axis::Kind::stored && names_[axes_[i].stored] == key.name) return i;
  return std::nullopt;
}

std::string RowAxes::name_of(std::size_t place) const {
  const Axis& axis = axes_[place];
  if (axis.kind == Axis::Kind::stored && names_[axis.stored]) return *names_[axis.stored];
  return formatted("{}", static_cast<std::int64_t>(place) - static_cast<std::int64_t>(axes_.size()));
}

std::vector<AxisMove> moves_of(std::span<const AxisKey> transpose, const RowAxes& axes) {
  std::vector<std::pair<std::size_t, AxisKey>> places;
  for (const AxisKey& key : transpose) {
    const auto place = axes.find(key);
    if (!place) refuse(formatted("transpose: the first array has no axis {}; it has {}", text_of(key), axes.text()));
    if (std::ranges::find(places, *place, [](const auto& p) { return p.first; }) != places.end())
      refuse(formatted("transpose: {} occurs twice", text_of(key)));
    places.emplace_back(*place, key);
  }
  std::ranges::sort(places, {}, [](const auto& p) { return p.first; });
  std::vector<AxisMove> moves;
  for (std::size_t i = 0; i < transpose.size(); ++i) moves.push_back({places[i].second, transpose[i]});
  return moves;
}

TurnedRow turned(const RowAxes& axes, std::span<const AxisMove> moves, std::span<const AxisKey> flip) {
  std::vector<AxisKey> moved;
  for (const AxisMove& move : moves) moved.push_back(move.axis);
  require_distinct(moved, axes, "transpose");
  require_distinct(flip, axes, "flip");
  std::vector<std::size_t> at(axes.axes().size());  // the axis that stands at a place
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = i;
  for (const AxisMove& move : moves) {
    const auto place = axes.find(move.place);
    if (!place) continue;
    // An axis that the row lacks hands on to the one that comes in its own place.
    std::optional<std::size_t> axis = axes.find(move.axis);
    for (AxisKey key = move.axis; !axis;) {
      key = std::ranges::find(moves, key, &AxisMove::place)->axis;
      axis = axes.find(key);
    }
    const std::int64_t wanted = axes.axes()[*place].extent, extent = axes.axes()[*axis].extent;
    if (wanted != extent)
      throw Error(Status::inval,
                  formatted("transpose: axes {} and {} have extents {} and {}", axes.name_of(*place),
                            axes.name_of(*axis), wanted, extent),
                  "extents");
    at[*place] = *axis;
  }
  std::vector<bool> is_reversed(at.size());
  for (const AxisKey& key : flip)
    if (const auto place = axes.find(key)) is_reversed[*place] = true;

  TurnedRow row{axes.stored_strides(), axes.stack_stride(), 0};
  for (std::size_t place = 0; place < at.size(); ++place) {
    const RowAxes::Axis& axis = axes.axes()[at[place]];
    const std::int64_t stride = axes.axes()[place].stride;
    if (is_reversed[place]) row.begin += (axis.extent - 1) * stride;
    const std::int64_t step = is_reversed[place] ? -stride : stride;
    if (axis.kind == RowAxes::Axis::Kind::stored) row.strides[axis.stored] = step;
    if (axis.kind == RowAxes::Axis::Kind::stack) row.stack_stride = step;
  }
  return row;
}

}  // namespace damacy
