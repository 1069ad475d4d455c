#include "damacy/batch/batch_layout.h"

#include <limits>
#include <optional>

#include "damacy/batch/slot_plan.h"
#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {

BatchLayout::BatchLayout(const Config& config, std::span<const First> first) {
  for (const First& array : first) add(config, array);
}

void BatchLayout::add(const Config& config, const First& first) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Dtype dtype = dtype_of_rows(config, first.name);
  const std::int64_t of_part = product(first.part_extents.span()).value_or(kMost);
  const std::int64_t of_row = checked_mul(of_part, static_cast<std::int64_t>(first.parts)).value_or(kMost);
  const auto end = checked_add(slot_bytes_, array_slot_bytes(config.batch_size, of_row, dtype));
  if (!end)
    throw Error(Status::oom, formatted("a batch of {} samples is beyond 2**63 bytes", config.batch_size), "memory");

  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  Rows rows{first.name, {}, dtype, first.stacked, parts_.size(), first.parts, slot_bytes_, of_row * bytes};
  if (first.stacked) rows.extents.push_back(static_cast<std::int64_t>(first.parts));
  for (const std::int64_t extent : first.part_extents) rows.extents.push_back(extent);
  if (first.row) rows.extents = first.row->extents;
  Dims strides = first.row ? first.row->strides : row_major_strides(first.part_extents);
  for (auto& stride : strides) stride *= bytes;
  const std::int64_t from_part_to_part = (first.row ? first.row->stack_stride : of_part) * bytes;
  for (std::size_t i = 0; i < first.parts; ++i)
    parts_.push_back(
        {arrays_.size(), first.part_extents, strides, of_part, static_cast<std::int64_t>(i) * from_part_to_part});
  arrays_.push_back(std::move(rows));
  slot_bytes_ = *end;
}

std::int64_t BatchLayout::sample_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (const Rows& array : arrays_) bytes += array.row_bytes;
  return bytes;
}

Dtype dtype_of_rows(const Config& config, std::string_view array) noexcept {
  for (const auto& [name, spec] : config.arrays)
    if (name == array) return spec.dtype.value_or(config.dtype);
  return config.dtype;
}

}  // namespace damacy
