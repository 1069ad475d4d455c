// Links of the two topologies that the library has.
#include "damacy/halo/link.h"

#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::halo {
namespace {

Integers opposite(Integers offsets) {
  for (auto& offset : offsets) offset = -offset;
  return offsets;
}

std::vector<Cells> halves(const Width& width, std::size_t count) {
  if (const auto* const cells = std::get_if<std::int64_t>(&width)) {
    if (*cells < 0) throw Error(Status::inval, formatted("width {}: expected a number of cells", *cells));
    return std::vector<Cells>(count, Cells{*cells, *cells});
  }
  const auto& given = std::get<std::vector<Cells>>(width);
  bool negative = false;
  for (const Cells& half : given) negative |= half.start < 0 || half.stop < 0;
  if (given.size() != count || negative)
    throw Error(Status::inval,
                formatted("width: expected a pair of numbers of cells for each of {} dimensions", count));
  return given;
}

}  // namespace

RankLinks links_of(const CubedSphere& sphere, std::int64_t rank, CornerFill fill) {
  RankLinks out;
  out.dims = {"j", "i"};
  out.fill = fill;
  for (const SphereLink& link : sphere.links(rank))
    out.links.push_back({link.peer, static_cast<std::int64_t>(link.side), static_cast<std::int64_t>(link.peer_side),
                         link.rotation, std::nullopt, std::nullopt, 0});
  for (const Side side : {Side::northwest, Side::northeast, Side::southwest, Side::southeast})
    if (!sphere.neighbour(rank, side)) out.unowned.push_back(side);
  return out;
}

RankLinks links_of(const Cartesian& grid, std::int64_t rank, std::vector<std::string> dims, const Width& width) {
  if (dims.size() != grid.counts().size())
    throw Error(Status::inval, formatted("a grid of {} dimensions with {} names", grid.counts().size(), dims.size()));
  RankLinks out;
  out.dims = std::move(dims);
  for (auto& link : grid.links(rank, halves(width, grid.counts().size())))
    out.links.push_back(
        {link.peer, link.side, opposite(link.side), 0, std::move(link.send), std::move(link.receive), link.phase});
  return out;
}

}  // namespace damacy::halo
