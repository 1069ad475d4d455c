// Ghost boxes are cut at the blocks of their owners, periodic images included.
#include "damacy/halo/topology.h"

#include <algorithm>
#include <utility>

#include "damacy/core/dims.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::halo {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 60;  // cells or ranks; sums of a few of these fit in 64 bits

std::int64_t floor_divided(std::int64_t value, std::int64_t by) {
  return value / by - (value % by < 0 ? 1 : 0);
}

// Calls body(indices) for all indices below `counts`, the last one running fastest.
template <class Body>
void for_each_index(const Integers& counts, Body body) {
  if (std::find(counts.begin(), counts.end(), 0) != counts.end()) return;
  Integers at(counts.size(), 0);
  while (true) {
    body(at);
    std::size_t axis = counts.size();
    while (axis > 0 && ++at[axis - 1] == counts[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace

std::int64_t ranks_of(const Integers& counts) {
  std::int64_t size = 1;
  for (const std::int64_t count : counts) {
    if (count < 1 || size > kMost / count)
      throw Error(Status::inval, formatted("grid {}: {} ranks along a dimension", tuple_text(counts), count));
    size *= count;
  }
  return size;
}

std::vector<Integers> sizes_of(std::span<const BlockSizes> sizes, const Integers& counts) {
  if (sizes.size() != counts.size())
    throw Error(Status::inval, formatted("sizes for {} dimensions, expected {} for grid {}", sizes.size(),
                                         counts.size(), tuple_text(counts)));
  std::vector<Integers> out;
  for (std::size_t axis = 0; axis < counts.size(); ++axis) {
    const auto* const same = std::get_if<std::int64_t>(&sizes[axis]);
    const auto count = static_cast<std::size_t>(counts[axis]);
    out.push_back(same != nullptr ? Integers(count, *same) : std::get<Integers>(sizes[axis]));
    if (out.back().size() != count || std::ranges::any_of(out.back(), [](std::int64_t cells) { return cells < 0; }))
      throw Error(Status::inval,
                  formatted("sizes {} along dimension {} of grid {}: expected cells of one block, or of each",
                            tuple_text(out.back()), axis, tuple_text(counts)));
  }
  return out;
}

Integers coordinates_of(const Integers& counts, std::int64_t rank) {
  const std::int64_t size = ranks_of(counts);
  if (rank < 0 || rank >= size) throw Error(Status::inval, formatted("rank {} of {}", rank, size));
  Integers out(counts.size());
  for (std::size_t axis = out.size(); axis > 0; --axis) {
    out[axis - 1] = rank % counts[axis - 1];
    rank /= counts[axis - 1];
  }
  return out;
}

std::int64_t rank_at(const Integers& counts, const Integers& coordinates) {
  std::int64_t rank = 0;
  for (std::size_t axis = 0; axis < std::min(counts.size(), coordinates.size()); ++axis)
    rank = rank * counts[axis] + coordinates[axis];
  return rank;
}

// The part of a row of ghost cells, or of the block itself, that one block owns.
struct Cartesian::Piece {
  std::int64_t owner;
  std::int64_t blocks;  // from here to the owner's image
  Cells cells;
};

struct Cartesian::Ghost {
  std::int64_t owner;
  Integers blocks;
  CellBox box;
  int phase;
};

Cartesian::Cartesian(Grid grid) : grid_(std::move(grid)) {
  if (grid_.periodic.size() != grid_.sizes.size())
    throw Error(Status::inval, formatted("a grid of {} dimensions with {} entries for periodic", grid_.sizes.size(),
                                         grid_.periodic.size()));
  for (const Integers& sizes : grid_.sizes) {
    const auto count = static_cast<std::int64_t>(sizes.size());
    if (count == 0 || size_ > kMost / count)
      throw Error(Status::inval, formatted("a grid with {} blocks along a dimension and {} along those before it, "
                                           "expected 1 to {} in all",
                                           count, size_, kMost));
    size_ *= count;
    counts_.push_back(count);
    Integers starts{0};
    for (const std::int64_t cells : sizes) {
      if (cells < 0 || cells > kMost - starts.back())
        throw Error(Status::inval, formatted("a block of {} cells after {} cells", cells, starts.back()));
      starts.push_back(starts.back() + cells);
    }
    starts_.push_back(std::move(starts));
  }
}

std::int64_t Cartesian::cells(std::size_t axis, std::int64_t at) const {
  return grid_.sizes[axis][static_cast<std::size_t>(at)];
}

std::int64_t Cartesian::start(std::size_t axis, std::int64_t at) const {
  return starts_[axis][static_cast<std::size_t>(at)];
}

// The owners of the cells `wanted` around block `at`.
std::vector<Cartesian::Piece> Cartesian::pieces(std::size_t axis, std::int64_t at, Cells wanted) const {
  std::vector<Piece> out;
  const std::int64_t total = starts_[axis].back(), here = start(axis, at);
  const auto count = static_cast<std::int64_t>(grid_.sizes[axis].size());
  if (total == 0) return out;
  const bool periodic = grid_.periodic[axis];
  const std::int64_t first = periodic ? floor_divided(here + wanted.start, total) - 1 : 0;
  const std::int64_t last = periodic ? floor_divided(here + wanted.stop, total) + 1 : 0;
  for (std::int64_t image = first; image <= last; ++image) {
    for (std::int64_t owner = 0; owner < count; ++owner) {
      const std::int64_t from = start(axis, owner) + image * total - here;
      const Cells both{std::max(from, wanted.start), std::min(from + cells(axis, owner), wanted.stop)};
      if (both.start < both.stop) out.push_back({owner, owner - at + image * count, both});
    }
  }
  return out;
}

// Whether block `to` owns cells of block `from` or of its halo.
bool Cartesian::reaches(std::size_t axis, std::int64_t from, std::int64_t to, Cells width) const {
  const auto found = pieces(axis, from, {-width.start, cells(axis, from) + width.stop});
  return from == to || std::any_of(found.begin(), found.end(), [to](const Piece& p) { return p.owner == to; });
}

// From cells of block `there` to cells of block `here`, an image `blocks` away.
std::int64_t Cartesian::shift(std::size_t axis, std::int64_t there, std::int64_t here, std::int64_t blocks) const {
  const auto count = static_cast<std::int64_t>(grid_.sizes[axis].size());
  const std::int64_t periods = floor_divided(there + blocks - here, count);
  return start(axis, there) - start(axis, here) - periods * starts_[axis].back();
}

void Cartesian::add_region(std::vector<Ghost>& out, const Integers& here, const Integers& touched,
                           const std::vector<Cells>& widths, std::optional<std::size_t> phase) const {
  std::vector<std::vector<Piece>> choices;
  Integers counts;
  for (std::size_t axis = 0; axis < here.size(); ++axis) {
    const std::int64_t size = cells(axis, here[axis]);
    if (touched[axis] < 0) {
      choices.push_back(pieces(axis, here[axis], {-widths[axis].start, 0}));
    } else if (touched[axis] > 0) {
      choices.push_back(pieces(axis, here[axis], {size, size + widths[axis].stop}));
    } else {
      const bool wide = phase && axis < *phase;
      choices.push_back(
          {{here[axis], 0, wide ? Cells{-widths[axis].start, size + widths[axis].stop} : Cells{0, size}}});
    }
    counts.push_back(static_cast<std::int64_t>(choices.back().size()));
  }
  for_each_index(counts, [&](const Integers& at) {
    Ghost ghost{0, {}, {}, static_cast<int>(phase.value_or(0))};
    Integers owner;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      const Piece& piece = choices[axis][static_cast<std::size_t>(at[axis])];
      owner.push_back(piece.owner);
      ghost.blocks.push_back(piece.blocks);
      ghost.box.push_back(piece.cells);
    }
    ghost.owner = rank_at(counts_, owner);
    out.push_back(std::move(ghost));
  });
}

std::vector<Cartesian::Ghost> Cartesian::ghosts(const Integers& here, const std::vector<Cells>& widths) const {
  std::vector<Ghost> out;
  if (grid_.corners == Corners::sequential) {
    for (std::size_t axis = 0; axis < here.size(); ++axis) {
      for (const std::int64_t end : {-1, 1}) {
        Integers touched(here.size(), 0);
        touched[axis] = end;
        add_region(out, here, touched, widths, axis);
      }
    }
    return out;
  }
  for_each_index(Integers(here.size(), 3), [&](Integers touched) {
    for (std::int64_t& end : touched) --end;
    const auto count = std::count_if(touched.begin(), touched.end(), [](std::int64_t end) { return end != 0; });
    if (count == 1 || (count > 1 && grid_.corners == Corners::direct)) add_region(out, here, touched, widths, {});
  });
  return out;
}

Integers Cartesian::block(std::int64_t rank) const {
  Integers out;
  const Integers here = coordinates_of(counts_, rank);
  for (std::size_t axis = 0; axis < here.size(); ++axis)
    out.push_back(grid_.sizes[axis][static_cast<std::size_t>(here[axis])]);
  return out;
}

void Cartesian::check(const std::vector<Cells>& widths) const {
  if (widths.size() != counts_.size())
    throw Error(Status::inval, formatted("{} widths for a grid of {} dimensions", widths.size(), counts_.size()));
  for (const Cells& width : widths)
    if (std::min(width.start, width.stop) < 0 || std::max(width.start, width.stop) > kMost)
      throw Error(Status::inval, formatted("a halo of {} and {} cells", width.start, width.stop));
}

std::vector<Cells> Cartesian::unowned(std::int64_t rank, const std::vector<Cells>& widths) const {
  const Integers here = coordinates_of(counts_, rank);
  check(widths);
  std::vector<Cells> out(here.size());
  for (std::size_t axis = 0; axis < here.size(); ++axis) {
    if (grid_.periodic[axis]) continue;
    const std::int64_t behind = starts_[axis].back() - start(axis, here[axis]) - cells(axis, here[axis]);
    out[axis] = {std::max<std::int64_t>(0, widths[axis].start - start(axis, here[axis])),
                 std::max<std::int64_t>(0, widths[axis].stop - behind)};
  }
  return out;
}

std::vector<GridLink> Cartesian::links(std::int64_t rank, const std::vector<Cells>& widths) const {
  const Integers here = coordinates_of(counts_, rank);
  check(widths);
  std::vector<GridLink> out;
  for (Ghost& ghost : ghosts(here, widths))
    out.push_back({ghost.owner, std::move(ghost.blocks), {}, std::move(ghost.box), ghost.phase});
  std::vector<Integers> near(here.size());
  Integers counts;
  for (std::size_t axis = 0; axis < here.size(); ++axis) {
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(grid_.sizes[axis].size()); ++n)
      if (reaches(axis, n, here[axis], widths[axis])) near[axis].push_back(n);
    counts.push_back(static_cast<std::int64_t>(near[axis].size()));
  }
  for_each_index(counts, [&](const Integers& at) {
    Integers there;
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      there.push_back(near[axis][static_cast<std::size_t>(at[axis])]);
    const std::int64_t other = rank_at(counts_, there);
    for (Ghost& ghost : ghosts(there, widths)) {
      if (ghost.owner != rank) continue;
      for (std::size_t axis = 0; axis < here.size(); ++axis) {
        const std::int64_t by = shift(axis, there[axis], here[axis], ghost.blocks[axis]);
        ghost.box[axis] = {ghost.box[axis].start + by, ghost.box[axis].stop + by};
        ghost.blocks[axis] = -ghost.blocks[axis];
      }
      out.push_back({other, std::move(ghost.blocks), std::move(ghost.box), {}, ghost.phase});
    }
  });
  return out;
}

}  // namespace damacy::halo
