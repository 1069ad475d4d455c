#include "damacy/copy/placement.h"

#include <algorithm>
#include <array>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

constexpr std::size_t kAtOnce = 256;  // placements; fewer than 256 KiB of an image

Placement as_placement(const BlockCopy& copy, std::uint64_t src, std::uint64_t dst, const ChunkLayout& layout) {
  Placement placement;
  placement.src = src;
  placement.dst = dst + static_cast<std::uint64_t>(copy.dst_offset);
  placement.src_offset = copy.src_offset;
  placement.rank = copy.rank;
  std::copy_n(copy.axes.begin(), copy.rank, placement.axes);
  placement.op = copy.op;
  placement.layout = layout;
  return placement;
}

// Each position of the outer axes, those beyond what a placement has, is a placement of the inner ones.
template <class Each>
void unroll(const DeepPlacement& deep, Each each) {
  const std::size_t outer = deep.copy.rank - Placement::kRank;
  BlockCopy inner = deep.copy;
  inner.rank = Placement::kRank;
  std::copy_n(deep.copy.axes.begin() + static_cast<std::ptrdiff_t>(outer), Placement::kRank, inner.axes.begin());
  std::array<std::int64_t, kMaxRank> at{};
  for (;;) {
    each(as_placement(inner, deep.src, deep.dst, deep.layout));
    std::size_t axis = outer;
    for (; axis > 0; --axis) {  // the next position
      const CopyAxis& moved = deep.copy.axes[axis - 1];
      inner.src_offset += moved.src_stride;
      inner.dst_offset += moved.dst_stride;
      if (++at[axis - 1] < moved.extent) break;
      inner.src_offset -= moved.extent * moved.src_stride;
      inner.dst_offset -= moved.extent * moved.dst_stride;
      at[axis - 1] = 0;
    }
    if (axis == 0) return;
  }
}

}  // namespace

void PlacementList::add(const Placement& placement) {
  const Lock lock(mutex_);
  prepared_.reset();
  placements_.push_back(placement);
}

void PlacementList::add(const PlacementList& more) {
  const Lock lock(mutex_);
  prepared_.reset();
  placements_.insert(placements_.end(), more.placements().begin(), more.placements().end());
  deep_.insert(deep_.end(), more.deep().begin(), more.deep().end());
}

void PlacementList::add(const BlockCopy& copy, std::uint64_t src, std::uint64_t dst, const ChunkLayout& layout) {
  const bool is_empty = std::ranges::any_of(copy.used(), [](const CopyAxis& axis) { return axis.extent == 0; });
  if (is_empty) return;
  if (copy.rank <= Placement::kRank) return add(as_placement(copy, src, dst, layout));
  const Lock lock(mutex_);
  prepared_.reset();
  deep_.push_back({copy, src, dst, layout});
}

void for_each_portion(const Copier& copier, const PlacementList& list, std::size_t most,
                      const std::function<void(const PlacementList&)>& run) {
  const bool as_it_is = list.size() <= most && (list.deep().empty() || copier.takes_deep());
  if (as_it_is) {
    if (list.size() > 0) run(list);
    return;
  }
  PlacementList portion;
  const auto end_portion = [&](std::size_t from) {
    if (portion.size() < from) return;
    run(portion);
    portion.clear();
  };
  const auto add = [&](const Placement& placement) {
    portion.add(placement);
    end_portion(most);
  };
  for (const Placement& placement : list.placements()) add(placement);
  for (const DeepPlacement& deep : list.deep()) {
    if (!copier.takes_deep()) {
      unroll(deep, add);
      continue;
    }
    portion.add(deep.copy, deep.src, deep.dst, deep.layout);
    end_portion(most);
  }
  end_portion(1);
}

void enqueue_in_portions(Copier& copier, Stream& stream, const PlacementList& list, FencedMemory& pinned,
                         std::span<std::byte> image) {
  for_each_portion(copier, list, kAtOnce, [&](const PlacementList& portion) {
    const std::size_t bytes = copier.image_bytes(portion), most = pinned.bytes().size();
    if (bytes > most)
      throw Error(Status::oom, formatted("an image has {} bytes, its memory {}", bytes, most), "memory");
    pinned.ready().wait();
    copier.write_image(portion, pinned.bytes().first(bytes));
    stream.copy(image.first(bytes), pinned.bytes().first(bytes));
    copier.enqueue(stream, portion, image.first(bytes));
    pinned.reusable_after(stream.record());
  });
}

}  // namespace damacy
