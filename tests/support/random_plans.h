// Random slots and copies for tests, and element loops that say what a plan must do. Slow, and meant to be read.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "damacy/copy/block_copy.h"
#include "damacy/copy/copy_plan.h"
#include "damacy/copy/element_ops.h"

namespace damacy::copy::testing {

inline void element_of(Dtype from, Dtype to, const std::byte* at, std::byte* out) {
  if (from == to)
    std::memcpy(out, at, size_of(to));
  else
    run_block_copy({0, 0, {from, to, false}, 0, {}}, {at, size_of(from)}, {out, size_of(to)});
}

// One element after the other, in the copies' order.
inline void run_by_elements(const Plan& plan, std::span<const std::uint64_t> bases) {
  for (const Copy& copy : plan.copies()) {
    const Dtype from = plan.slots()[copy.src.slot].dtype, to = plan.slots()[copy.dst.slot].dtype;
    const std::int64_t count = *product(copy.extents.span());
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t src = copy.src.offset, dst = copy.dst.offset, rest = n;
      for (std::size_t axis = copy.extents.size(); axis-- > 0; rest /= copy.extents[axis]) {
        src += rest % copy.extents[axis] * copy.src.strides[axis];
        dst += rest % copy.extents[axis] * copy.dst.strides[axis];
      }
      const auto* read = reinterpret_cast<const std::byte*>(bases[copy.src.slot]) + src;
      auto* written = reinterpret_cast<std::byte*>(bases[copy.dst.slot]) + dst;
      std::byte element[16];
      element_of(from, to, read, element);
      with_type(to, [&](auto type) {
        decltype(type) value, before;
        std::memcpy(&value, element, sizeof value);
        if (copy.op.negate) value = negated(value);
        std::memcpy(&before, written, sizeof before);
        if (copy.op.add) value = sum(before, value);
        std::memcpy(written, &value, sizeof value);
      });
    }
  }
}

// A plan with memory for its slots: sources with random bytes, destinations that are cut into disjoint boxes.
class RandomPlan {
 public:
  explicit RandomPlan(std::uint32_t seed) : random_(seed) {
    const bool casts = below(4) == 0;
    const Dtype dtype = static_cast<Dtype>(below(casts ? kBatchDtypes : 15));
    const std::uint32_t sources = 1 + below(3);
    for (std::uint32_t i = 0; i < sources; ++i)
      add_slot(casts ? static_cast<Dtype>(below(kBatchDtypes)) : dtype, 1 + below(5), false);
    const std::uint32_t targets = 1 + below(2);
    for (std::uint32_t i = 0; i < targets; ++i) add_slot(dtype, 1 + below(5), true);
    const std::uint32_t count = 1 + below(4);
    for (std::uint32_t i = 0; i < count; ++i) add_copy(below(sources), sources + below(targets), i, count);
    plan_ = compile(slots_, copies_);
  }

  const std::shared_ptr<const Plan>& plan() const { return plan_; }

  // Fresh memory with the same bytes each time.
  struct Memory {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<std::uint64_t> bases;
  };
  Memory memory() const {
    Memory out;
    static const std::vector<std::byte> noise = [] {
      std::mt19937 random(7);
      std::vector<std::byte> bytes(1 << 16);
      for (auto& b : bytes) b = static_cast<std::byte>(random());
      return bytes;
    }();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      out.bytes.emplace_back(static_cast<std::size_t>(sizes_[i]));
      const bool boolean = slots_[i].dtype == Dtype::boolean;
      auto& bytes = out.bytes.back();
      for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = noise[(k + 977 * i) % noise.size()];
      if (boolean)
        for (auto& b : bytes) b &= std::byte{1};
      out.bases.push_back(reinterpret_cast<std::uint64_t>(out.bytes.back().data()) +
                          static_cast<std::uint64_t>(starts_[i]));
    }
    return out;
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  // Any order of axes in memory, padded, some backwards.
  void add_slot(Dtype dtype, std::size_t rank, bool writable) {
    Slot slot{dtype, Dims(rank, 1), Dims(rank, 0), writable};
    std::vector<std::size_t> order(rank);
    for (std::size_t i = 0; i < rank; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    auto stride = static_cast<std::int64_t>(size_of(dtype));
    std::int64_t start = 0, size = stride, room = 2000;
    for (const std::size_t axis : order) {
      const bool longish = below(12) == 0;
      slot.shape[axis] = 1 + below(static_cast<std::uint32_t>(std::min<std::int64_t>(longish ? 200 : 9, room)));
      room = std::max<std::int64_t>(room / slot.shape[axis], 1);
      slot.strides[axis] = below(4) == 0 ? -stride : stride;
      if (slot.strides[axis] < 0) start += (slot.shape[axis] - 1) * stride;
      size += (slot.shape[axis] - 1) * stride;
      stride *= slot.shape[axis] + (below(3) == 0 ? below(3) : 0);
    }
    slots_.push_back(slot);
    starts_.push_back(start);
    sizes_.push_back(size);
  }

  // Slices of the destination along its first axis, so that copies never meet but when they add.
  void add_copy(std::uint32_t from, std::uint32_t to, std::uint32_t index, std::uint32_t count) {
    const Slot &src = slots_[from], &dst = slots_[to];
    Copy copy;
    copy.src.slot = from;
    copy.dst.slot = to;
    const bool floats_or_ints = dst.dtype != Dtype::boolean;
    const bool is_unsigned = dst.dtype == Dtype::u8 || dst.dtype == Dtype::u16 || dst.dtype == Dtype::u32 ||
                             dst.dtype == Dtype::u64 || dst.dtype == Dtype::boolean;
    copy.op.add = floats_or_ints && adds_;
    copy.op.negate = !is_unsigned && below(3) == 0;
    std::vector<std::size_t> axes(src.shape.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    std::shuffle(axes.begin(), axes.end(), random_);
    for (std::size_t axis = 0; axis < dst.shape.size(); ++axis) {
      std::int64_t low = 0, high = dst.shape[axis];
      if (axis == 0 && !copy.op.add) {
        low = high * index / count;
        high = high * (index + 1) / count;
      }
      const std::int64_t room = high - low;
      const std::int64_t there = axis < axes.size() ? src.shape[axes[axis]] : room;
      const std::int64_t extent = std::min(room, there);
      const bool back = below(3) == 0;
      copy.extents.push_back(extent);
      copy.dst.offset += low * dst.strides[axis];
      copy.dst.strides.push_back(dst.strides[axis]);
      const std::int64_t step = axis < axes.size() ? src.strides[axes[axis]] : 0;
      if (back && extent > 0) copy.src.offset += (extent - 1) * step;
      copy.src.strides.push_back(back ? -step : step);
    }
    copies_.push_back(copy);
  }

  std::mt19937 random_;
  bool adds_ = below(3) == 0;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> starts_, sizes_;
  std::vector<Copy> copies_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace damacy::copy::testing
