// Links become boxes, boxes become entries. Nothing here knows an array.
#include "damacy/halo/exchange_phases.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

constexpr std::int64_t kMostCells = std::int64_t{1} << 60;  // sums of a few fit in 64 bits
constexpr const char* kNotOfVector = "Vector halo exchange must have same exchange data for X and Y";

std::string text_of(const LinkSide& side) {
  if (const auto* const number = std::get_if<std::int64_t>(&side)) return formatted("{}", *number);
  return tuple_text(std::get<Integers>(side));
}

std::optional<Side> numbered(const LinkSide& side) {
  const auto* const number = std::get_if<std::int64_t>(&side);
  if (number == nullptr || *number < 0 || *number >= kSides) return std::nullopt;
  return static_cast<Side>(*number);
}

std::string list_text(const Integers& values) {
  std::string out;
  for (const auto value : values) out += formatted("{}{}", out.empty() ? "" : ", ", value);
  return "[" + out + "]";
}

int sign_of(std::int64_t value) {
  return value > 0 ? 1 : value < 0 ? -1 : 0;
}

// Orders the segments of a message by the sender's side: in two dimensions its number, else its offsets.
std::pair<std::int64_t, Integers> order_of(const LinkSide& side) {
  if (const auto* const number = std::get_if<std::int64_t>(&side)) return {*number, {}};
  const auto& offsets = std::get<Integers>(side);
  if (offsets.size() != 2) return {0, offsets};
  const auto number = side_of({sign_of(offsets[1]), sign_of(offsets[0])});
  return {number ? static_cast<std::int64_t>(*number) : -1, offsets};
}

// Which end of a dimension a side touches: negative its start, positive its end.
std::int64_t end_of(const LinkSide& side, std::size_t axis, std::string_view kind) {
  if (const auto* const offsets = std::get_if<Integers>(&side)) {
    if (axis >= offsets->size())
      throw Error(Status::inval, formatted("side {}: expected an offset for each dimension", text_of(side)));
    return (*offsets)[axis];
  }
  const auto known = numbered(side);
  if (!known) throw Error(Status::inval, formatted("side {}: expected one of 0 to 7", text_of(side)));
  return kind == "i" ? ends_of(*known).i : kind == "j" ? ends_of(*known).j : 0;
}

// The box that a link sends or receives, absolute in the allocation.
Box box_of(const QuantityHaloSpec& field, const Link& link, std::span<const std::string> dims, const Width& width,
           bool interior) {
  const auto& given = interior ? link.send : link.receive;
  if (!given) {
    const auto* const cells = std::get_if<std::int64_t>(&width);
    if (cells == nullptr) throw Error(Status::inval, "width: expected one number for these links");
    const auto side = numbered(link.side);
    if (!side) throw Error(Status::inval, formatted("side {}: expected one of 0 to 7", text_of(link.side)));
    return boundary_slice(field, *side, *cells, interior);
  }
  if (given->size() != dims.size())
    throw Error(Status::inval,
                formatted("a link's box has {} dimensions, {} are decomposed", given->size(), dims.size()));
  Box box{field.origin, field.origin};
  for (std::size_t own = 0; own < field.dims.size(); ++own) {
    const std::string& dim = field.dims[own];
    const auto at = std::find_if(dims.begin(), dims.end(), [&](auto& d) { return kind_of(d) == kind_of(dim); });
    std::int64_t start = 0, stop = field.extent[own];
    if (at != dims.end()) {
      const auto axis = static_cast<std::size_t>(at - dims.begin());
      start = (*given)[axis].start, stop = (*given)[axis].stop;
      if (std::max(start, stop) > kMostCells || std::min(start, stop) < -kMostCells)
        throw Error(Status::inval, formatted("a link's box from {} to {} is out of range", start, stop));
      // The receiver's end. Both ranks hold the boundary row itself, so it is not sent.
      const std::int64_t end = end_of(link.side, axis, kind_of(dim)) * (interior ? -1 : 1);
      if (is_staggered(dim) && end > 0) ++start;
      if (is_staggered(dim) && end >= 0) ++stop;
    }
    box.start[own] = field.origin[own] + start;
    box.stop[own] = field.origin[own] + stop;
    check_inside(dim, box.start[own], box.stop[own], field.shape[own]);
  }
  return box;
}

bool same_kinds(const QuantityHaloSpec& a, const QuantityHaloSpec& b) {
  return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                    [](const auto& x, const auto& y) { return kind_of(x) == kind_of(y); });
}

struct FieldPair {
  std::uint32_t x;
  std::optional<std::uint32_t> y;
};

std::vector<FieldPair> pairs_of(std::span<const QuantityHaloSpec> fields, const VectorPairs& vectors) {
  std::string all;
  for (const auto& [x, y] : vectors) all += formatted("{}({}, {})", all.empty() ? "" : ", ", x, y);
  std::map<std::int64_t, std::int64_t> second;
  std::set<std::int64_t> named, seconds;
  for (const auto& [x, y] : vectors) {
    for (const auto n : {x, y})
      if (n < 0 || n >= static_cast<std::int64_t>(fields.size()) || !named.insert(n).second)
        throw Error(Status::inval, formatted("vectors [{}]: expected pairs of different numbers of the {} fields", all,
                                             fields.size()));
    const auto &a = fields[static_cast<std::size_t>(x)], &b = fields[static_cast<std::size_t>(y)];
    if (!same_kinds(a, b) || a.dtype != b.dtype) throw Error(Status::inval, kNotOfVector, kMisuse);
    second[x] = y;
    seconds.insert(y);
  }
  std::vector<FieldPair> pairs;
  for (std::uint32_t n = 0; n < fields.size(); ++n) {
    if (seconds.contains(n)) continue;
    const auto y = second.find(n);
    pairs.push_back({n, y == second.end() ? std::nullopt : std::optional(static_cast<std::uint32_t>(y->second))});
  }
  return pairs;
}

class PhaseMaker {
 public:
  PhaseMaker(std::span<const QuantityHaloSpec> fields, const RankLinks& links, std::int64_t rank, const Width& width,
             const VectorPairs& vectors)
      : fields_(fields), links_(links), rank_(rank), width_(width), pairs_(pairs_of(fields, vectors)) {}

  ExchangePhase phase(int number) const {
    ExchangePhase phase;
    std::vector<const Link*> sends, receives;
    for (const Link& link : links_.links) {
      if (link.phase != number) continue;
      if (link.send || !link.receive) sends.push_back(&link);
      if (link.receive || !link.send) receives.push_back(&link);
    }
    const auto by = [](auto side) {
      return [side](const Link* a, const Link* b) { return order_of(a->*side) < order_of(b->*side); };
    };
    std::stable_sort(sends.begin(), sends.end(), by(&Link::side));
    for (const Link* link : sends)
      if (link->peer != rank_) append(phase.sends[link->peer], entries(*link, true));
    add_directs(phase, sends, receives);
    std::stable_sort(receives.begin(), receives.end(), by(&Link::peer_side));
    for (const Link* link : receives)
      if (link->peer != rank_) append(phase.receives[link->peer], entries(*link, false));
    return phase;
  }

  // Fills the cells beyond cube corners from the adjacent halo.
  ExchangePhase corners() const {
    const auto* const width = std::get_if<std::int64_t>(&width_);
    if (width == nullptr) throw Error(Status::inval, "width: expected one number for these links");
    ExchangePhase phase;
    for (const Side side : links_.unowned)
      for (std::uint32_t number = 0; number < fields_.size(); ++number)
        fill_corner(phase.directs, number, side, *width);
    return phase;
  }

 private:
  static void append(std::vector<Entry>& to, std::vector<Entry> entries) {
    for (Entry& entry : entries) to.push_back(std::move(entry));
  }

  FieldBox box(std::uint32_t number, const Link& link, bool interior) const {
    return {number, box_of(fields_[number], link, links_.dims, width_, interior)};
  }

  std::vector<Entry> entries(const Link& link, bool interior) const {
    std::vector<Entry> out;
    for (const auto& [x, y] : pairs_) {
      if (y && modulo_4(link.rotation) != 0) check_negatable(fields_[x].dtype);
      Entry entry;
      entry.x = box(x, link, interior);
      if (y) entry.y = box(*y, link, interior);
      entry.rotation = interior ? modulo_4(link.rotation) : 0;
      out.push_back(std::move(entry));
    }
    return out;
  }

  void add_directs(ExchangePhase& phase, const std::vector<const Link*>& sends,
                   const std::vector<const Link*>& receives) const {
    for (const Link* to : receives) {
      if (to->peer != rank_) continue;
      const auto source = std::find_if(sends.begin(), sends.end(), [&](const Link* from) {
        return from->peer == rank_ && from->side == to->peer_side && from->peer_side == to->side;
      });
      if (source == sends.end())
        throw Error(Status::inval,
                    formatted("rank {} receives from itself at side {} but does not send at {}", rank_,
                              text_of(to->side), text_of(to->peer_side)),
                    kMisuse);
      auto from = entries(**source, true), targets = entries(*to, false);
      for (std::size_t i = 0; i < from.size(); ++i)
        phase.directs.push_back({std::move(from[i]), std::move(targets[i].x), std::move(targets[i].y)});
    }
  }

  // Copies that transpose about the corner's diagonal, which keeps the distance from the edge.
  void fill_corner(std::vector<Direct>& out, std::uint32_t number, Side side, std::int64_t width) const {
    const QuantityHaloSpec& field = fields_[number];
    const Box target = boundary_slice(field, side, width, false);
    const auto [i_axis, j_axis] = horizontal_axes(field.dims);
    if (i_axis < 0 || j_axis < 0) return;
    const bool from_x = links_.fill == CornerFill::x;
    const auto [i_end, j_end] = ends_of(side);
    // The cell `step` cells beyond the domain; and the one as far inside.
    const auto beyond = [&](int axis, int end, std::int64_t step) {
      const auto a = static_cast<std::size_t>(axis);
      return end < 0 ? field.origin[a] - 1 - step : field.origin[a] + field.extent[a] + step;
    };
    const auto inside = [&](int axis, int end, std::int64_t step) {
      const auto a = static_cast<std::size_t>(axis);
      return end < 0 ? field.origin[a] + step : field.origin[a] + field.extent[a] - 1 - step;
    };
    const auto put = [](Box& box, int axis, std::int64_t at) {
      box.start[static_cast<std::size_t>(axis)] = at;
      box.stop[static_cast<std::size_t>(axis)] = at + 1;
    };
    for (std::int64_t a = 0; a < width; ++a) {  // distances from the domain along i and j
      for (std::int64_t b = 0; b < width; ++b) {
        Box cell = target, source = target;
        put(cell, i_axis, beyond(i_axis, i_end, a));
        put(cell, j_axis, beyond(j_axis, j_end, b));
        // From x: the cell takes the value from the halo in x, at exchanged distances.
        put(source, i_axis, from_x ? beyond(i_axis, i_end, b) : inside(i_axis, i_end, b));
        put(source, j_axis, from_x ? inside(j_axis, j_end, a) : beyond(j_axis, j_end, a));
        out.push_back({{{number, source}, std::nullopt, 0, false}, {number, cell}, std::nullopt});
      }
    }
  }

  std::span<const QuantityHaloSpec> fields_;
  const RankLinks& links_;
  std::int64_t rank_;
  const Width& width_;
  std::vector<FieldPair> pairs_;
};

}  // namespace

std::vector<ExchangePhase> phases_of(std::span<const QuantityHaloSpec> fields, const RankLinks& links,
                                     std::int64_t rank, const Width& width, const VectorPairs& vectors) {
  if (fields.empty()) throw Error(Status::inval, "Attempting to init an empty halo exchange", kMisuse);
  int last = 0;
  for (const Link& link : links.links) {
    if (link.phase < 0 || link.phase > 1 << 20) throw Error(Status::inval, formatted("phase {}", link.phase));
    last = std::max(last, link.phase);
  }
  const PhaseMaker maker(fields, links, rank, width, vectors);
  std::vector<ExchangePhase> phases;
  for (int number = 0; number <= last; ++number) phases.push_back(maker.phase(number));
  if (links.fill != CornerFill::none) phases.push_back(maker.corners());
  return phases;
}

ExchangePhase interface_phase(const QuantityHaloSpec& x, const QuantityHaloSpec& y, std::span<const Link> links,
                              std::int64_t rank) {
  const auto is_on = [](const QuantityHaloSpec& field, std::string_view i, std::string_view j) {
    const auto axes = horizontal_axes(field.dims);
    return axes.i >= 0 && axes.j >= 0 && field.dims[static_cast<std::size_t>(axes.i)] == i &&
           field.dims[static_cast<std::size_t>(axes.j)] == j;
  };
  if (!is_on(x, "i", "j_interface") || !is_on(y, "i_interface", "j"))
    throw Error(Status::inval, formatted("vector must be defined on Arakawa C-grid: x {}, y {}", names_text(x.dims),
                                         names_text(y.dims)));
  if (x.dtype != y.dtype) throw Error(Status::inval, kNotOfVector, kMisuse);
  const auto edge = [](const QuantityHaloSpec& field, std::uint32_t number, int axis, bool last) {
    Box box = compute_domain(field);
    const auto a = static_cast<std::size_t>(axis);
    if (last) box.start[a] = box.stop[a] - 1;
    box.stop[a] = box.start[a] + 1;
    return FieldBox{number, box};
  };
  const int row = horizontal_axes(x.dims).j, column = horizontal_axes(y.dims).i;
  const auto link_at = [&](Side side) -> const Link* {
    const auto found =
        std::find_if(links.rbegin(), links.rend(), [&](const Link& l) { return numbered(l.side) == side; });
    return found == links.rend() ? nullptr : &*found;
  };
  using Segments = std::map<std::int64_t, std::vector<std::pair<LinkSide, Entry>>>;
  Segments sends, receives;
  if (const Link* const west = link_at(Side::west)) {
    const int r = modulo_4(west->rotation);
    sends[west->peer].push_back({west->side, {edge(y, 1, column, false), std::nullopt, r, r == 1 || r == 2}});
  }
  if (const Link* const south = link_at(Side::south)) {
    const int r = modulo_4(south->rotation);
    sends[south->peer].push_back({south->side, {edge(x, 0, row, false), std::nullopt, r, r == 2 || r == 3}});
  }
  if (const Link* const east = link_at(Side::east))
    receives[east->peer].push_back({east->peer_side, {edge(y, 1, column, true), std::nullopt, 0, false}});
  if (const Link* const north = link_at(Side::north))
    receives[north->peer].push_back({north->peer_side, {edge(x, 0, row, true), std::nullopt, 0, false}});
  const auto ordered = [](Segments segments) {  // by the sender's side
    std::map<std::int64_t, std::vector<Entry>> out;
    for (auto& [peer, found] : segments) {
      std::stable_sort(found.begin(), found.end(),
                       [](const auto& a, const auto& b) { return order_of(a.first) < order_of(b.first); });
      for (auto& [side, entry] : found) out[peer].push_back(std::move(entry));
    }
    return out;
  };
  ExchangePhase phase{ordered(std::move(sends)), ordered(std::move(receives)), {}};
  const auto mine = phase.sends.extract(rank), theirs = phase.receives.extract(rank);
  if (!mine.empty() && !theirs.empty())
    for (std::size_t i = 0; i < std::min(mine.mapped().size(), theirs.mapped().size()); ++i)
      phase.directs.push_back({mine.mapped()[i], theirs.mapped()[i].x, std::nullopt});
  return phase;
}

Integers cells_of(const QuantityHaloSpec& field, std::span<const std::string> dims) {
  Integers out;
  for (const auto& dim : dims) {
    const auto at = std::find_if(field.dims.begin(), field.dims.end(), [&](auto& own) { return kind_of(own) == dim; });
    if (at == field.dims.end())
      throw Error(Status::inval,
                  formatted("dimension {} is decomposed, but a field has only {}", dim, names_text(field.dims)));
    out.push_back(field.extent[static_cast<std::size_t>(at - field.dims.begin())] - (is_staggered(*at) ? 1 : 0));
  }
  return out;
}

void check_block(std::span<const QuantityHaloSpec> fields, std::span<const std::string> dims, const Integers& block,
                 std::int64_t rank) {
  for (std::size_t n = 0; n < fields.size(); ++n) {
    const Integers cells = cells_of(fields[n], dims);
    if (cells != block)
      throw Error(Status::inval, formatted("field {} has {} cells along {}, expected {} for rank {}", n,
                                           list_text(cells), names_text(dims), list_text(block), rank));
  }
}

}  // namespace damacy::halo
