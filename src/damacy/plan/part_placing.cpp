#include "damacy/plan/part_placing.h"

#include <algorithm>
#include <limits>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t remainder(std::int64_t value, std::int64_t by) noexcept {
  const std::int64_t rest = value % by;
  return rest < 0 ? rest + by : rest;
}

// The places of one axis, in the order of its positions.
class AxisBuilder {
 public:
  AxisBuilder(const PartAxis& axis, std::size_t number, std::int64_t size) : axis_(axis), number_(number), size_(size) {
    places_.all = {0, 0, 0, axis.stride, axis.extent()};
  }

  AxisPlaces build() && {
    if (!axis_.indices.empty() || axis_.has_own_finishes) {
      add_list();
    } else {
      const std::int64_t below = std::clamp<std::int64_t>(ceil_to_step(0), 0, axis_.extent());
      const std::int64_t inside = std::clamp<std::int64_t>(ceil_to_step(size_), below, axis_.extent()) - below;
      add_beyond(0, below);
      if (inside > 0)
        places_.stored.push_back(
            {axis_.start + below * axis_.step, axis_.step, below * axis_.stride, axis_.stride, inside});
      add_beyond(below + inside, axis_.extent());
    }
    return std::move(places_);
  }

 private:
  // The first position whose index is at least `index`.
  std::int64_t ceil_to_step(std::int64_t index) const noexcept {
    return index <= axis_.start ? 0 : ceil_div(index - axis_.start, axis_.step);
  }

  std::int64_t index_at(std::int64_t position) const noexcept {
    return axis_.indices.empty() ? axis_.start + position * axis_.step
                                 : axis_.indices[static_cast<std::size_t>(position)];
  }

  // Positions [first, end), all beyond the array.
  void add_beyond(std::int64_t first, std::int64_t end) {
    if (first >= end) return;
    require_border(index_at(first < end - 1 && index_at(first) >= 0 ? end - 1 : first));
    places_.beyond += end - first;
    if (axis_.border == Border::constant) {
      places_.constant.push_back({0, 0, first * axis_.stride, axis_.stride, end - first});
      return;
    }
    if (end - first > static_cast<std::int64_t>(Limits::border_positions))
      throw Error(Status::inval,
                  formatted("aabb axis {}: {} positions beyond the array, the limit is {}", number_, end - first,
                            Limits::border_positions),
                  "limit");
    std::vector<std::int64_t> from(static_cast<std::size_t>(end - first));
    for (std::int64_t i = first; i < end; ++i)
      from[static_cast<std::size_t>(i - first)] = index_within(index_at(i), size_, axis_.border);
    std::ranges::copy(as_runs(from, first * axis_.stride, axis_.stride), std::back_inserter(places_.stored));
  }

  // Position by position.
  void add_list() {
    std::vector<std::int64_t> from;
    std::int64_t first = 0;  // of the indices in `from`
    const auto flush = [&] {
      std::ranges::copy(as_runs(from, first * axis_.stride, axis_.stride), std::back_inserter(places_.stored));
      from.clear();
    };
    for (std::int64_t i = 0; i < axis_.extent(); ++i) {
      std::int64_t index = index_at(i);
      const bool is_inside = index >= 0 && index < size_;
      if (!is_inside) {
        require_border(index);
        ++places_.beyond;
        if (axis_.border == Border::constant) {
          flush();
          first = i + 1;
          places_.constant.push_back({0, 0, i * axis_.stride, axis_.stride, 1});
          continue;
        }
        index = index_within(index, size_, axis_.border);
      }
      if (axis_.has_own_finishes) {
        places_.stored.push_back({index, 1, i * axis_.stride, axis_.stride, 1, static_cast<std::uint32_t>(i)});
        continue;
      }
      if (from.empty()) first = i;
      from.push_back(index);
    }
    flush();
  }

  void require_border(std::int64_t index) const {
    if (axis_.border == Border::none)
      throw Error(Status::inval,
                  formatted("aabb axis {}: index {} is outside of the array's size {}{}", number_, index, size_,
                            index < 0 ? "; ArraySpec(pad=…) lets boxes cross the border" : ""),
                  "aabb");
    if (size_ == 0 && axis_.border != Border::constant)
      throw Error(Status::inval,
                  formatted("aabb axis {}: an axis without elements takes no pad but a constant", number_), "aabb");
  }

  const PartAxis& axis_;
  const std::size_t number_;
  const std::int64_t size_;
  AxisPlaces places_;
};

std::vector<AxisPlaces> places_of(const Dims& shape, std::span<const PartAxis> axes) {
  std::vector<AxisPlaces> places;
  places.reserve(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) places.push_back(AxisBuilder(axes[i], i, shape[i]).build());
  return places;
}

std::vector<AxisRuns> stored_runs(std::span<const AxisPlaces> places) {
  std::vector<AxisRuns> runs;
  runs.reserve(places.size());
  for (const AxisPlaces& axis : places) runs.push_back(axis.stored);
  return runs;
}

std::int64_t count_pieces(std::span<const AxisPlaces> places) {
  Dims runs;
  for (const AxisPlaces& axis : places) runs.push_back(static_cast<std::int64_t>(axis.stored.size()));
  return product(runs.span()).value_or(kMost);
}

// The boxes whose first position beyond the array, in the order of axes, is on the constant axis `at`.
class ConstantBoxes {
 public:
  ConstantBoxes(std::span<const AxisPlaces> places, std::size_t at) : rank_(places.size()) {
    for (std::size_t i = 0; i < rank_; ++i) {
      const bool is_inside = i < at && !places[i].constant.empty();
      runs_[i] = i == at     ? std::span(places[i].constant)
                 : is_inside ? std::span(places[i].stored)
                             : std::span(&places[i].all, 1);
    }
  }

  std::int64_t count() const {
    Dims counts;
    for (std::size_t i = 0; i < rank_; ++i) counts.push_back(static_cast<std::int64_t>(runs_[i].size()));
    return product(counts.span()).value_or(kMost);
  }

  template <class Visit>
  void visit(Visit visit) const {
    if (count() == 0) return;
    std::array<std::size_t, kMaxRank> at{};
    for (;;) {
      BlockCopy copy;
      copy.rank = static_cast<std::uint32_t>(rank_);
      for (std::size_t i = 0; i < rank_; ++i) {
        const Run& run = runs_[i][at[i]];
        copy.axes[i] = {run.count, 0, run.to_step};
        copy.dst_offset += run.to;
      }
      normalise(copy);
      visit(copy);
      std::size_t axis = rank_;
      while (axis > 0 && ++at[axis - 1] == runs_[axis - 1].size()) at[--axis] = 0;
      if (axis == 0) return;
    }
  }

 private:
  std::size_t rank_;
  std::array<std::span<const Run>, kMaxRank> runs_;
};

void refuse_pieces(std::int64_t pieces, std::uint64_t most, const char* of) {
  if (pieces > static_cast<std::int64_t>(most))
    throw Error(Status::inval, formatted("the sample falls into {} {}, the limit is {}", pieces, of, most), "limit");
}

}  // namespace

// Sizes beyond 2^62 do not overflow: what lies beyond their ends is less than a period away.
std::int64_t index_within(std::int64_t index, std::int64_t size, Border border) noexcept {
  if (size > (std::int64_t{1} << 61)) {
    if (border == Border::reflect) return index < 0 ? -index : index;
    if (border == Border::symmetric) return index < 0 ? -1 - index : index;
    if (border == Border::wrap) return index < 0 ? index + size : index;
  }
  switch (border) {
    case Border::reflect: {
      if (size == 1) return 0;
      const std::int64_t at = remainder(index, 2 * (size - 1));
      return at < size ? at : 2 * (size - 1) - at;
    }
    case Border::symmetric: {
      const std::int64_t at = remainder(index, 2 * size);
      return at < size ? at : 2 * size - 1 - at;
    }
    case Border::wrap:
      return remainder(index, size);
    case Border::none:
    case Border::constant:
    case Border::edge:
      break;
  }
  return std::clamp<std::int64_t>(index, 0, size - 1);
}

std::int64_t PartAxis::extent() const noexcept {
  return indices.empty() ? ceil_div(stop - start, step) : static_cast<std::int64_t>(indices.size());
}

PartPlacing::PartPlacing(const Dims& shape, const Dims& chunk_shape, std::span<const PartAxis> axes, std::int64_t begin,
                         std::vector<Finish> finishes, Dtype from, Dtype to)
    : PartPlacing(places_of(shape, axes), chunk_shape, axes, begin, std::move(finishes), from, to) {}

PartPlacing::PartPlacing(std::vector<AxisPlaces> places, const Dims& chunk_shape, std::span<const PartAxis> axes,
                         std::int64_t begin, std::vector<Finish> finishes, Dtype from, Dtype to)
    : from_(from), to_(to), begin_(begin), finishes_(std::move(finishes)), stored_(stored_runs(places), chunk_shape) {
  std::int64_t pieces = count_pieces(places);
  refuse_pieces(pieces, Limits::pieces_per_sample, "pieces");
  refuse_pieces(stored_.copies(), Limits::chunks_per_sample, "pairs of a piece and a chunk");
  Dims all, inside;
  for (const AxisPlaces& axis : places) {
    all.push_back(axis.all.count);
    inside.push_back(axis.all.count - axis.beyond);
  }
  padded_ = product(all.span()).value_or(kMost) - product(inside.span()).value_or(kMost);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (places[i].constant.empty()) continue;
    constant_copies_ = checked_add(constant_copies_, ConstantBoxes(places, i).count()).value_or(kMost);
    constants_.push_back({i, Finish{.replacement = axes[i].constant, .is_constant = true}});
    pieces = checked_add(pieces, constant_copies_).value_or(kMost);
    refuse_pieces(pieces, Limits::pieces_per_sample, "pieces");
  }
  if (!constants_.empty()) places_ = std::move(places);
}

ByteRange PartPlacing::bytes_of(const Dims& chunk, const Dims& strides) const noexcept {
  return stored_.bytes_of(stored_.part_of(chunk), strides, size_of(from_));
}

void PartPlacing::for_copies(const Dims& chunk, const Dims& strides, bool swap_bytes, std::int64_t to,
                             const Visit& visit) const {
  stored_.for_copies(stored_.part_of(chunk), strides, to + begin_, op(swap_bytes), visit);
}

void PartPlacing::for_constants(std::int64_t to, const Visit& visit) const {
  for (const Constant& constant : constants_)
    ConstantBoxes(places_, constant.axis).visit([&](BlockCopy& copy) {
      copy.op = {from_, to_, false, &constant.finish};
      copy.dst_offset += to + begin_;
      visit(copy);
    });
}

void PartPlacing::for_fill(std::int64_t to, const Visit& visit) const {
  const Dims none(stored_.size() == 0 ? 0 : stored_.chunk_of(0).size(), 0);
  for (std::int64_t part = 0; part < stored_.size(); ++part)
    stored_.for_copies(part, none, to + begin_, op(false), visit);
  for_constants(to, visit);
}

}  // namespace damacy
