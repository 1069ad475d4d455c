// Links of the two topologies that the library has.
#include "damacy/halo/topology.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "damacy/core/dims.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

Integers opposite(Integers offsets) {
  for (auto& offset : offsets) offset = -offset;
  return offsets;
}

std::string text_of(const std::vector<Cells>& widths) {
  std::string out;
  for (const Cells& width : widths) {
    if (!out.empty()) out += ", ";
    out += width.start == width.stop ? formatted("{}", width.start) : formatted("({}, {})", width.start, width.stop);
  }
  return formatted("({}{})", out, widths.size() == 1 ? "," : "");
}

std::string text_of(const LinkSide& side) {
  const auto* const offsets = std::get_if<Integers>(&side);
  return offsets != nullptr ? tuple_text(*offsets) : formatted("{}", std::get<std::int64_t>(side));
}

}  // namespace

Error wrong_width(std::string_view width, std::size_t count) {
  return Error(Status::inval,
               formatted("width {}: expected cells, or a number or a pair for each of {} dimensions", width, count));
}

std::vector<Cells> widths_of(const Width& width, std::size_t count) {
  if (const auto* const cells = std::get_if<std::int64_t>(&width)) {
    if (*cells < 0) throw wrong_width(formatted("{}", *cells), count);
    return std::vector<Cells>(count, Cells{*cells, *cells});
  }
  const auto& given = std::get<std::vector<Cells>>(width);
  const bool is_negative =
      std::ranges::any_of(given, [](const Cells& half) { return half.start < 0 || half.stop < 0; });
  if (given.size() != count || is_negative) throw wrong_width(text_of(given), count);
  return given;
}

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
  out.block = grid.block(rank);
  for (auto& link : grid.links(rank, widths_of(width, grid.counts().size())))
    out.links.push_back(
        {link.peer, link.side, opposite(link.side), 0, std::move(link.send), std::move(link.receive), link.phase});
  return out;
}

void check_symmetric(std::span<const RankLinks> ranks) {
  using Known = std::tuple<std::int64_t, std::int64_t, LinkSide, LinkSide, int>;
  std::set<Known> known;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Link& link : ranks[rank].links)
      known.emplace(rank, link.peer, link.side, link.peer_side, modulo_4(link.rotation));
  for (const auto& [rank, peer, side, peer_side, rotation] : known)
    if (!known.contains({peer, rank, peer_side, side, modulo_4(-rotation)}))
      throw Error(Status::inval,
                  formatted("the link of rank {} at side {} has no counterpart at rank {}", rank, text_of(side), peer),
                  kMisuse);
}

}  // namespace damacy::halo
