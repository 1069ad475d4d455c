// The normal form of a copy: which axes are dropped, reversed or merged.
#include <algorithm>
#include <optional>

#include "damacy/copy/block_copy.h"
#include "damacy/core/checked.h"

namespace damacy {
namespace {

// The first element's offset and the stride of an axis that is walked from its other end.
struct Turned {
  std::int64_t offset;
  std::int64_t stride;
};

std::optional<Turned> turned(std::int64_t offset, std::int64_t stride, std::int64_t extent) noexcept {
  const auto reach = checked_mul(extent - 1, stride);
  const auto start = reach ? checked_add(offset, *reach) : std::nullopt;
  const auto back = checked_mul<std::int64_t>(stride, -1);
  if (!start || !back) return std::nullopt;
  return Turned{*start, *back};
}

// Numbers that do not fit are outside of any memory. Such an axis is left unchanged, and running the copy fails.
void turn(BlockCopy& copy, CopyAxis& axis) noexcept {
  const auto src = turned(copy.src_offset, axis.src_stride, axis.extent);
  const auto dst = turned(copy.dst_offset, axis.dst_stride, axis.extent);
  if (!src || !dst) return;
  copy.src_offset = src->offset;
  copy.dst_offset = dst->offset;
  axis.src_stride = src->stride;
  axis.dst_stride = dst->stride;
}

void drop_unit_axes(BlockCopy& copy) noexcept {
  const auto end =
      std::remove_if(copy.used().begin(), copy.used().end(), [](const CopyAxis& a) { return a.extent == 1; });
  copy.rank = static_cast<std::uint32_t>(end - copy.used().begin());
}

// Stable, without memory, and quick for the handful of axes there are, which mostly are in order.
void sort_by_destination(std::span<CopyAxis> axes) noexcept {
  for (std::size_t i = 1; i < axes.size(); ++i)
    for (std::size_t k = i; k > 0 && axes[k - 1].dst_stride < axes[k].dst_stride; --k) std::swap(axes[k - 1], axes[k]);
}

bool runs_on(const CopyAxis& outer, const CopyAxis& inner) noexcept {
  return checked_mul(inner.extent, inner.src_stride) == outer.src_stride &&
         checked_mul(inner.extent, inner.dst_stride) == outer.dst_stride &&
         checked_mul(inner.extent, outer.extent).has_value();
}

void merge_axes(BlockCopy& copy) noexcept {
  std::uint32_t kept = 0;
  for (const CopyAxis& axis : copy.used()) {
    if (kept > 0 && runs_on(copy.axes[kept - 1], axis))
      copy.axes[kept - 1] = {copy.axes[kept - 1].extent * axis.extent, axis.src_stride, axis.dst_stride};
    else
      copy.axes[kept++] = axis;
  }
  copy.rank = kept;
}

}  // namespace

void normalise(BlockCopy& copy) noexcept {
  if (std::ranges::any_of(copy.used(), [](const CopyAxis& a) { return a.extent == 0; })) {
    copy.rank = 1;
    copy.axes[0] = {0, 0, 0};
    return;
  }
  drop_unit_axes(copy);
  for (CopyAxis& axis : copy.used())
    if (axis.dst_stride < 0) turn(copy, axis);
  sort_by_destination(copy.used());
  merge_axes(copy);
}

}  // namespace damacy
