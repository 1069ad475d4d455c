#include "damacy/plan/batch_plan.h"

#include "damacy/core/checked.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace damacy {
namespace {

struct Touch {
  std::uint32_t array;
  std::uint32_t part;
  std::int64_t shard;
  std::int64_t number;
  std::uint32_t index_in_shard;

  auto chunk_order() const noexcept { return std::tie(array, shard, index_in_shard); }
  friend bool operator<(const Touch& a, const Touch& b) noexcept {
    return std::tie(a.array, a.shard, a.index_in_shard, a.part) < std::tie(b.array, b.shard, b.index_in_shard, b.part);
  }
};

std::int64_t linear(const Dims& at, const Dims& shape) noexcept {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < at.size(); ++i) number = number * shape[i] + at[i];
  return number;
}

// The chunks that `box` touches, as a box of the chunk grid.
Box touched(const Array& array, const Box& box) noexcept {
  const Dims& chunk = array.metadata().chunk_shape;
  Box cells{Dims(box.rank(), 0), Dims(box.rank(), 0)};
  for (std::size_t i = 0; i < box.rank(); ++i) {
    cells.start[i] = box.start[i] / chunk[i];
    cells.stop[i] = (box.stop[i] - 1) / chunk[i] + 1;
  }
  return cells;
}

// Next coordinates inside `cells` in C order; false after the last.
bool advance(Dims& at, const Box& cells) noexcept {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (++at[i] < cells.stop[i]) return true;
    at[i] = cells.start[i];
  }
  return false;
}

template <class Visit>
void for_chunks(const PlannedPart& part, Visit visit) {
  if (part.placing != nullptr) {
    for (std::int64_t i = 0; i < part.placing->chunks(); ++i) visit(part.placing->chunk(i));
    return;
  }
  const Box cells = touched(*part.array, part.box);
  Dims at = cells.start;
  do visit(at);
  while (advance(at, cells));
}

// Neighbours along the last axis stay in one portion, so that their reads still merge.
std::uint32_t portion_of(std::uint32_t array, std::int64_t number, std::uint32_t portions) noexcept {
  const std::uint64_t mixed = (static_cast<std::uint64_t>(number >> 6) + array) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>((mixed >> 32) % portions);
}

std::uint32_t array_number(std::vector<const Array*>& arrays, const Array* array) {
  for (std::size_t i = arrays.size(); i-- > 0;)
    if (arrays[i] == array) return static_cast<std::uint32_t>(i);
  arrays.push_back(array);
  return static_cast<std::uint32_t>(arrays.size() - 1);
}

}  // namespace

std::int64_t count_chunks(const Array& array, const Box& box) noexcept {
  return product(touched(array, box).extents().span()).value_or(std::numeric_limits<std::int64_t>::max());
}

std::int64_t count_chunks(const PlannedPart& part) noexcept {
  if (part.placing == nullptr) return count_chunks(*part.array, part.box);
  return part.placing->chunks() + (part.placing->has_constants() ? 1 : 0);
}

Dims chunk_coordinates(const Array& array, std::int64_t number) noexcept {
  const Dims& grid = array.grid();
  Dims at(grid.size(), 0);
  for (std::size_t i = grid.size(); i-- > 0;) {
    at[i] = number % grid[i];
    number /= grid[i];
  }
  return at;
}

std::uint32_t count_portions(std::span<const PlannedPart> parts, std::int64_t records) noexcept {
  std::int64_t touches = 0;
  for (const PlannedPart& part : parts)
    if (!part.is_lost) touches += count_chunks(part);
  return static_cast<std::uint32_t>(ceil_div(std::max<std::int64_t>(touches, 1), records));
}

BatchPlan plan_batch(std::span<const PlannedPart> parts, std::uint32_t portion, std::uint32_t portions) {
  BatchPlan plan;
  std::vector<Touch> touches;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].is_lost) continue;
    const Array& array = *parts[part].array;
    const std::uint32_t number_of_array = array_number(plan.arrays, &array);
    const auto is_of_portion = [&](std::int64_t number) {
      return portions == 1 || portion_of(number_of_array, number, portions) == portion;
    };
    for_chunks(parts[part], [&](const Dims& at) {
      const std::int64_t number = linear(at, array.grid());
      if (!is_of_portion(number)) return;
      touches.push_back({number_of_array, static_cast<std::uint32_t>(part),
                         linear(array.shard_of_chunk(at), array.shard_grid()), number,
                         static_cast<std::uint32_t>(array.index_in_shard(at))});
    });
    const bool has_constants = parts[part].placing != nullptr && parts[part].placing->has_constants();
    if (has_constants && is_of_portion(PlannedChunk::kConstants))
      touches.push_back({number_of_array, static_cast<std::uint32_t>(part), -1, PlannedChunk::kConstants, 0});
  }
  std::sort(touches.begin(), touches.end());

  plan.uses.reserve(touches.size());
  for (const Touch& touch : touches) {
    const Touch* before = &touch == touches.data() ? nullptr : &touch - 1;
    const bool new_shard = before == nullptr || before->array != touch.array || before->shard != touch.shard;
    if (new_shard) {
      const Array& array = *plan.arrays[touch.array];
      const bool is_constant = touch.number == PlannedChunk::kConstants;
      plan.shards.push_back(
          {touch.array,
           is_constant ? Dims(array.rank(), 0) : array.shard_of_chunk(chunk_coordinates(array, touch.number)),
           static_cast<std::uint32_t>(plan.chunks.size()), 0, is_constant});
    }
    if (new_shard || before->index_in_shard != touch.index_in_shard) {
      plan.chunks.push_back({touch.index_in_shard, static_cast<std::uint32_t>(plan.uses.size()), 0, touch.number});
      ++plan.shards.back().chunk_count;
    }
    plan.uses.push_back(touch.part);
    ++plan.chunks.back().use_count;
  }
  return plan;
}

}  // namespace damacy
