#include "damacy/plan/selection.h"

#include <algorithm>
#include <limits>

#include "damacy/copy/finish.h"

namespace damacy {

AxisRuns as_runs(std::span<const std::int64_t> from, std::span<const std::int64_t> to) {
  AxisRuns runs;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!runs.empty()) {
      Run& run = runs.back();
      const std::int64_t last = run.count - 1;
      const std::int64_t step = from[i] - (run.from + last * run.step);
      const std::int64_t to_step = to[i] - (run.to + last * run.to_step);
      if (run.count == 1 && step >= 0) {
        run.step = step;
        run.to_step = to_step;
        run.count = 2;
        continue;
      }
      if (run.count > 1 && step == run.step && to_step == run.to_step) {
        ++run.count;
        continue;
      }
    }
    runs.push_back({from[i], 1, to[i], 0, 1});
  }
  return runs;
}

AxisRuns as_runs(std::span<const std::int64_t> from, std::int64_t to, std::int64_t to_step) {
  AxisRuns runs;
  for (std::size_t first = 0; first < from.size();) {
    std::size_t end = first + 1;
    const std::int64_t step = end < from.size() ? from[end] - from[first] : 1;
    while (end < from.size() && from[end] - from[end - 1] == step) ++end;
    const auto count = static_cast<std::int64_t>(end - first);
    const std::int64_t begin = to + static_cast<std::int64_t>(first) * to_step;
    if (step >= 0)
      runs.push_back({from[first], step, begin, to_step, count});
    else
      runs.push_back({from[end - 1], -step, begin + (count - 1) * to_step, -to_step, count});
    first = end;
  }
  return runs;
}

std::vector<AxisPart> split_runs(const AxisRuns& runs, std::int64_t extent) {
  std::vector<AxisPart> parts;
  const auto add = [&](std::int64_t chunk, const Run& run) {
    if (parts.empty() || parts.back().chunk != chunk) parts.push_back({chunk, {}});
    parts.back().runs.push_back(run);
  };
  for (Run rest : runs) {
    while (rest.count > 0) {
      const std::int64_t chunk = rest.from / extent;
      const std::int64_t inside = rest.from - chunk * extent;
      const std::int64_t fit = rest.step == 0 ? rest.count : (extent - 1 - inside) / rest.step + 1;
      const std::int64_t count = std::min(rest.count, fit);
      add(chunk, {inside, rest.step, rest.to, rest.to_step, count, rest.finish});
      rest.from += count * rest.step;
      rest.to += count * rest.to_step;
      rest.count -= count;
    }
  }
  std::stable_sort(parts.begin(), parts.end(), [](const AxisPart& a, const AxisPart& b) { return a.chunk < b.chunk; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[kept].chunk == parts[i].chunk)
      parts[kept].runs.insert(parts[kept].runs.end(), parts[i].runs.begin(), parts[i].runs.end());
    else if (++kept != i)
      parts[kept] = std::move(parts[i]);
  }
  if (!parts.empty()) parts.resize(kept + 1);
  return parts;
}

SplitSelection::SplitSelection(std::span<const AxisRuns> axes, const Dims& chunk_shape) {
  axes_.reserve(axes.size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    axes_.push_back(split_runs(axes[axis], chunk_shape[axis]));
    size_ *= static_cast<std::int64_t>(axes_.back().size());
  }
}

// Takes the digit of one axis off a part's number; the last axis first.
const AxisPart& SplitSelection::axis_part(std::size_t axis, std::int64_t& rest) const noexcept {
  const auto count = static_cast<std::int64_t>(axes_[axis].size());
  const AxisPart& part = axes_[axis][static_cast<std::size_t>(rest % count)];
  rest /= count;
  return part;
}

template <class Visit>
void SplitSelection::for_axes(std::int64_t part, Visit visit) const {
  for (std::size_t axis = axes_.size(); axis-- > 0;) visit(axis, axis_part(axis, part));
}

Dims SplitSelection::chunk_of(std::int64_t part) const noexcept {
  Dims chunk(axes_.size(), 0);
  for_axes(part, [&](std::size_t axis, const AxisPart& of) { chunk[axis] = of.chunk; });
  return chunk;
}

std::int64_t SplitSelection::part_of(const Dims& chunk) const noexcept {
  std::int64_t part = 0;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    const auto found = std::ranges::lower_bound(axes_[axis], chunk[axis], {}, &AxisPart::chunk);
    part = part * static_cast<std::int64_t>(axes_[axis].size()) + (found - axes_[axis].begin());
  }
  return part;
}

std::int64_t SplitSelection::copies(std::int64_t part) const noexcept {
  std::int64_t product = 1;
  for_axes(part, [&](std::size_t, const AxisPart& of) { product *= static_cast<std::int64_t>(of.runs.size()); });
  return product;
}

std::int64_t SplitSelection::copies() const noexcept {
  Dims of_axes;
  for (const std::vector<AxisPart>& parts : axes_) {
    std::int64_t runs = 0;
    for (const AxisPart& part : parts) runs += static_cast<std::int64_t>(part.runs.size());
    of_axes.push_back(runs);
  }
  return product(of_axes.span()).value_or(std::numeric_limits<std::int64_t>::max());
}

std::int64_t SplitSelection::elements(std::int64_t part) const noexcept {
  std::int64_t product = 1;
  for_axes(part, [&](std::size_t, const AxisPart& of) {
    std::int64_t count = 0;
    for (const Run& run : of.runs) count += run.count;
    product *= count;
  });
  return product;
}

ByteRange SplitSelection::bytes_of(std::int64_t part, const Dims& strides, std::size_t element) const noexcept {
  std::int64_t begin = 0;
  std::int64_t end = static_cast<std::int64_t>(element);
  for_axes(part, [&](std::size_t axis, const AxisPart& of) {
    std::int64_t first = of.runs.front().from;
    std::int64_t last = first;
    for (const Run& run : of.runs) {
      first = std::min(first, run.from);
      last = std::max(last, run.from + (run.count - 1) * run.step);
    }
    begin += first * strides[axis];
    end += last * strides[axis];
  });
  return {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)};
}

void SplitSelection::for_copies(std::int64_t part, const Dims& strides, std::int64_t to, const CopyOp& op,
                                const std::function<void(const BlockCopy&)>& visit) const {
  std::array<const AxisRuns*, kMaxRank> runs;
  for_axes(part, [&](std::size_t axis, const AxisPart& of) { runs[axis] = &of.runs; });
  const std::size_t rank = axes_.size();
  std::array<std::size_t, kMaxRank> at{};  // which run of each axis
  for (;;) {
    BlockCopy copy;
    copy.op = op;
    copy.dst_offset = to;
    copy.rank = static_cast<std::uint32_t>(rank);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const Run& run = (*runs[axis])[at[axis]];
      copy.axes[axis] = {run.count, run.step * strides[axis], run.to_step};
      copy.src_offset += run.from * strides[axis];
      copy.dst_offset += run.to;
      if (op.finish != nullptr) copy.op.finish += run.finish;
    }
    normalise(copy);
    visit(copy);
    std::size_t axis = rank;
    while (axis > 0 && ++at[axis - 1] == runs[axis - 1]->size()) at[--axis] = 0;
    if (axis == 0) return;
  }
}

SelectedChunks::SelectedChunks(const Array& object, std::span<const std::span<const AxisRuns>> selections)
    : object_(object) {
  std::vector<std::pair<std::uint64_t, Part>> wanted;
  selections_.reserve(selections.size());
  for (const auto& axes : selections) {
    const auto selection = static_cast<std::uint32_t>(selections_.size());
    const SplitSelection& split = selections_.emplace_back(axes, object_.metadata().chunk_shape);
    for (std::int64_t part = 0; part < split.size(); ++part)
      wanted.push_back({number_of(split.chunk_of(part)), {selection, part}});
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  parts_.reserve(wanted.size());
  for (const auto& [number, part] : wanted) {
    if (chunks_.empty() || chunks_.back().number != number)
      chunks_.push_back({number, static_cast<std::uint32_t>(parts_.size()), 0});
    ++chunks_.back().part_count;
    parts_.push_back(part);
  }
}

std::uint64_t SelectedChunks::number_of(const Dims& chunk) const noexcept {
  const Dims shard = object_.shard_of_chunk(chunk);
  std::uint64_t number = 0;
  for (std::size_t axis = 0; axis < shard.size(); ++axis)
    number = number * static_cast<std::uint64_t>(object_.shard_grid()[axis]) + static_cast<std::uint64_t>(shard[axis]);
  return number * object_.chunks_per_shard() + object_.index_in_shard(chunk);
}

Dims SelectedChunks::coordinates(std::size_t chunk) const noexcept {
  const Part& part = parts_of(chunk).front();
  return selections_[part.selection].chunk_of(part.number);
}

std::vector<ByteRange> SelectedChunks::needed_bytes(std::size_t chunk) const {
  std::vector<ByteRange> ranges;
  for (const Part& part : parts_of(chunk))
    ranges.push_back(
        selections_[part.selection].bytes_of(part.number, object_.chunk_strides(), size_of(object_.metadata().dtype)));
  merge_ranges(ranges);
  return ranges;
}

void SelectedChunks::for_copies(std::size_t chunk, const Dims& strides, std::int64_t to, const CopyOp& op,
                                const std::function<void(const BlockCopy&)>& visit) const {
  for (const Part& part : parts_of(chunk)) selections_[part.selection].for_copies(part.number, strides, to, op, visit);
}

std::int64_t SelectedChunks::copies(std::size_t chunk) const noexcept {
  std::int64_t copies = 0;
  for (const Part& part : parts_of(chunk)) copies += selections_[part.selection].copies(part.number);
  return copies;
}

}  // namespace damacy
