// Intervals first, sorted, so that few pairs are looked at closely.
#include "damacy/copy/detail/overlap.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::copy::detail {
namespace {

constexpr std::int64_t kMostEnumerated = 1 << 20;

// One side of a copy.
struct Region {
  std::uint32_t copy;
  bool is_dst;
  std::uint64_t space;  // regions of different spaces never meet
  std::uint64_t base;
  std::uint64_t begin;  // base + reach, modulo 2^64
  std::uint64_t end;
};

// The slots' axes by decreasing stride, if each steps over all that is inside it.
struct Nested {
  bool holds = false;
  std::uint32_t rank = 0;
  std::array<std::uint32_t, kMaxRank> order;
};

// Half-open intervals of indices, along a slot's axes as they lie in memory.
struct IndexBox {
  std::array<std::int64_t, kMaxRank> start;
  std::array<std::int64_t, kMaxRank> stop;
};

[[noreturn]] void refuse(std::string message) {
  throw Error(Status::inval, std::move(message), "overlap");
}

std::int64_t element_count(const Dims& extents) {
  const auto count = product(extents.span());
  return count ? *count : INT64_MAX;
}

class Finder {
 public:
  Finder(std::span<const Slot> slots, std::span<const Copy> copies, std::span<const std::uint64_t> bases)
      : slots_(slots), copies_(copies), bases_(bases), nested_(slots.size()) {
    for (std::size_t i = 0; i < slots.size(); ++i) nested_[i] = nested(slots[i]);
  }

  std::vector<std::pair<std::uint32_t, std::uint32_t>> find() {
    std::vector<Region> regions;
    regions.reserve(2 * copies_.size());
    for (std::uint32_t i = 0; i < copies_.size(); ++i) {
      if (element_count(copies_[i].extents) == 0) continue;
      check_self(i);
      regions.push_back(region(i, /*is_dst=*/false));
      regions.push_back(region(i, /*is_dst=*/true));
    }
    std::ranges::sort(regions, [](const Region& a, const Region& b) {
      return a.space != b.space ? a.space < b.space : a.begin < b.begin;
    });
    for (std::size_t i = 0; i < regions.size(); ++i)
      for (std::size_t k = i + 1; k < regions.size() && regions[k].space == regions[i].space; ++k) {
        if (regions[k].begin >= regions[i].end) break;
        compare(regions[i], regions[k]);
      }
    return std::move(additions_);
  }

 private:
  const SlotBox& side(const Region& region) const {
    return region.is_dst ? copies_[region.copy].dst : copies_[region.copy].src;
  }
  std::size_t bytes(const SlotBox& box) const { return size_of(slots_[box.slot].dtype); }

  static Nested nested(const Slot& slot) {
    Nested out;
    for (std::uint32_t axis = 0; axis < slot.shape.size(); ++axis)
      if (slot.shape[axis] > 1) out.order[out.rank++] = axis;
    const auto closer = [&](std::uint32_t a, std::uint32_t b) {
      return std::abs(slot.strides[a]) > std::abs(slot.strides[b]);
    };
    std::sort(out.order.begin(), out.order.begin() + out.rank, closer);
    std::int64_t inside = static_cast<std::int64_t>(size_of(slot.dtype));
    for (std::uint32_t i = out.rank; i > 0; --i) {
      const std::uint32_t axis = out.order[i - 1];
      if (std::abs(slot.strides[axis]) < inside) return out;
      inside += (slot.shape[axis] - 1) * std::abs(slot.strides[axis]);
    }
    out.holds = true;
    return out;
  }

  Region region(std::uint32_t copy, bool is_dst) const {
    const SlotBox& box = is_dst ? copies_[copy].dst : copies_[copy].src;
    const Reach reach = reach_of(box.offset, copies_[copy].extents, box.strides, bytes(box));
    const std::uint64_t base = bases_.empty() ? std::uint64_t{1} << 63 : bases_[box.slot];
    const std::uint64_t space = bases_.empty() ? box.slot : 0;
    return {copy,
            is_dst,
            space,
            base,
            base + static_cast<std::uint64_t>(reach.begin),
            base + static_cast<std::uint64_t>(reach.end)};
  }

  void compare(const Region& a, const Region& b) {
    if (!a.is_dst && !b.is_dst) return;
    const bool add = a.is_dst && b.is_dst && copies_[a.copy].op.add && copies_[b.copy].op.add;
    if (!overlap(a, b)) return;
    if (add) {
      additions_.emplace_back(std::min(a.copy, b.copy), std::max(a.copy, b.copy));
      return;
    }
    refuse(formatted("{} of copy {} and {} of copy {} overlap", a.is_dst ? "the destination" : "the source", a.copy,
                     b.is_dst ? "the destination" : "the source", b.copy));
  }

  bool overlap(const Region& a, const Region& b) {
    const SlotBox& first = side(a);
    const SlotBox& second = side(b);
    const bool one_layout = a.base == b.base && (first.slot == second.slot || same_layout(first.slot, second.slot));
    if (one_layout && nested_[first.slot].holds) {
      const auto one = index_box(first.slot, a);
      const auto other = one ? index_box(first.slot, b) : std::nullopt;
      if (one && other) return meet(*one, *other, nested_[first.slot].rank);
    }
    return share_elements(a, b);
  }

  bool same_layout(std::uint32_t a, std::uint32_t b) const { return slots_[a] == slots_[b]; }

  static bool meet(const IndexBox& a, const IndexBox& b, std::uint32_t rank) {
    for (std::uint32_t i = 0; i < rank; ++i)
      if (a.stop[i] <= b.start[i] || b.stop[i] <= a.start[i]) return false;
    return true;
  }

  // Empty: the box does not run along the axes of the slot.
  std::optional<IndexBox> index_box(std::uint32_t slot_index, const Region& region) const {
    const Slot& slot = slots_[slot_index];
    const Nested& axes = nested_[slot_index];
    const Copy& copy = copies_[region.copy];
    const SlotBox& box = side(region);
    std::int64_t rest = box.offset - reach_of(0, slot.shape, slot.strides, size_of(slot.dtype)).begin;
    IndexBox out;
    for (std::uint32_t i = 0; i < axes.rank; ++i) {
      const std::int64_t stride = std::abs(slot.strides[axes.order[i]]);
      out.start[i] = rest / stride;
      out.stop[i] = out.start[i] + 1;
      rest %= stride;
    }
    if (rest != 0) return std::nullopt;
    for (std::size_t axis = 0; axis < copy.extents.size(); ++axis) {
      if (copy.extents[axis] == 1) continue;
      if (!widen(out, slot, axes, copy.extents[axis], box.strides[axis])) return std::nullopt;
    }
    return out;
  }

  static bool widen(IndexBox& box, const Slot& slot, const Nested& axes, std::int64_t extent, std::int64_t stride) {
    for (std::uint32_t i = 0; i < axes.rank; ++i) {
      if (std::abs(slot.strides[axes.order[i]]) != std::abs(stride) || box.stop[i] - box.start[i] != 1) continue;
      if (stride > 0)
        box.stop[i] += extent - 1;
      else
        box.start[i] -= extent - 1;
      return box.start[i] >= 0 && box.stop[i] <= slot.shape[axes.order[i]];
    }
    return false;
  }

  std::vector<std::uint64_t> addresses(const Region& region) const {
    const Copy& copy = copies_[region.copy];
    const SlotBox& box = side(region);
    std::vector<std::uint64_t> out{region.base + static_cast<std::uint64_t>(box.offset)};
    for (std::size_t axis = 0; axis < copy.extents.size(); ++axis) {
      const std::size_t count = out.size();
      for (std::int64_t i = 1; i < copy.extents[axis]; ++i)
        for (std::size_t k = 0; k < count; ++k)
          out.push_back(out[k] + static_cast<std::uint64_t>(i * box.strides[axis]));
    }
    std::ranges::sort(out);
    return out;
  }

  // Whether all strides are multiples of one number and the elements are disjoint modulo that number, as in interleaved
  // arrays.
  bool pass_each_other(const Region& a, const Region& b) const {
    std::int64_t step = 0;
    for (const Region* region : {&a, &b})
      for (std::size_t axis = 0; axis < copies_[region->copy].extents.size(); ++axis)
        if (copies_[region->copy].extents[axis] > 1) step = std::gcd(step, side(*region).strides[axis]);
    if (step == 0) return false;
    const auto distance = static_cast<std::int64_t>(b.base + static_cast<std::uint64_t>(side(b).offset) - a.base -
                                                    static_cast<std::uint64_t>(side(a).offset));
    const std::int64_t apart = (distance % step + step) % step;
    return apart >= static_cast<std::int64_t>(bytes(side(a))) &&
           apart + static_cast<std::int64_t>(bytes(side(b))) <= step;
  }

  bool share_elements(const Region& a, const Region& b) const {
    const auto total = checked_add(element_count(copies_[a.copy].extents), element_count(copies_[b.copy].extents));
    if (!total || *total > kMostEnumerated)
      refuse(formatted(
          "cannot check whether copies {} and {} overlap: their layouts differ, and together they have more than {} elements",
          a.copy, b.copy, kMostEnumerated));
    if (pass_each_other(a, b)) return false;
    const auto first = addresses(a);
    const auto second = addresses(b);
    const std::uint64_t first_bytes = bytes(side(a)), second_bytes = bytes(side(b));
    for (std::size_t i = 0, k = 0; i < first.size() && k < second.size();) {
      if (first[i] + first_bytes <= second[k])
        ++i;
      else if (second[k] + second_bytes <= first[i])
        ++k;
      else
        return true;
    }
    return false;
  }

  // Whether two elements of one destination are the same memory.
  void check_self(std::uint32_t index) const {
    const Copy& copy = copies_[index];
    Slot box{slots_[copy.dst.slot].dtype, copy.extents, copy.dst.strides, true};
    if (nested(box).holds) return;
    if (element_count(copy.extents) > kMostEnumerated)
      refuse(formatted("cannot check whether the destination of copy {} overlaps itself: it has more than {} elements",
                       index, kMostEnumerated));
    const auto all = addresses(region(index, /*is_dst=*/true));
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i] - all[i - 1] < size_of(box.dtype))
        refuse(formatted("the destination of copy {} overlaps itself", index));
  }

  std::span<const Slot> slots_;
  std::span<const Copy> copies_;
  std::span<const std::uint64_t> bases_;
  std::vector<Nested> nested_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> additions_;
};

}  // namespace

Reach reach_of(std::int64_t offset, const Dims& extents, const Dims& strides, std::size_t element_bytes) {
  Reach reach{offset, offset};
  const auto extend = [](std::int64_t& bound, std::int64_t by) {
    const auto moved = checked_add(bound, by);
    if (!moved) throw Error(Status::inval, "an offset is out of range", "bounds");
    bound = *moved;
  };
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] == 0) return {offset, offset};
    const auto length = checked_mul(extents[axis] - 1, strides[axis]);
    if (!length) throw Error(Status::inval, formatted("axis {} is too long", axis), "bounds");
    extend(*length < 0 ? reach.begin : reach.end, *length);
  }
  extend(reach.end, static_cast<std::int64_t>(element_bytes));
  return reach;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> find_overlaps(std::span<const Slot> slots,
                                                                   std::span<const Copy> copies,
                                                                   std::span<const std::uint64_t> bases) {
  return Finder(slots, copies, bases).find();
}

}  // namespace damacy::copy::detail
