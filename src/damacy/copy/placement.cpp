#include "damacy/copy/placement.h"

#include <algorithm>

namespace damacy {

void PlacementList::add(const Placement& placement) {
  const std::lock_guard lock(mutex_);
  placements_.push_back(placement);
}

// Axes beyond what a placement has are the outermost: each of their positions is a placement of its own.
void PlacementList::add(const BlockCopy& copy, std::uint64_t src, std::uint64_t dst, const ChunkLayout& layout) {
  if (copy.rank > Placement::kRank) {
    BlockCopy inner = copy;
    inner.rank = copy.rank - 1;
    std::copy_n(copy.axes.begin() + 1, inner.rank, inner.axes.begin());
    for (std::int64_t i = 0; i < copy.axes[0].extent; ++i) {
      inner.src_offset = copy.src_offset + i * copy.axes[0].src_stride;
      inner.dst_offset = copy.dst_offset + i * copy.axes[0].dst_stride;
      add(inner, src, dst, layout);
    }
    return;
  }
  Placement placement;
  placement.src = src;
  placement.dst = dst + static_cast<std::uint64_t>(copy.dst_offset);
  placement.src_offset = copy.src_offset;
  placement.rank = copy.rank;
  std::copy_n(copy.axes.begin(), copy.rank, placement.axes);
  placement.op = copy.op;
  placement.layout = layout;
  if (placement.elements() > 0) add(placement);
}

}  // namespace damacy
