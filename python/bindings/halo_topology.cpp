// The ranks of halo exchanges for Python, and the links between them. Decides nothing.
#include <algorithm>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/core/dims.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/topology.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

halo::Integers integers_of(nb::handle sequence) {
  halo::Integers out;
  for (const nb::handle item : sequence) out.push_back(nb::cast<std::int64_t>(item));
  return out;
}

halo::LinkSide link_side(nb::handle side) {
  if (nb::isinstance<nb::tuple>(side) || nb::isinstance<nb::list>(side)) return integers_of(side);
  return nb::cast<std::int64_t>(side);
}

std::optional<halo::CellBox> cells_of(nb::handle box) {
  if (box.is_none()) return std::nullopt;
  halo::CellBox out;
  for (const nb::handle pair : box)
    out.push_back({nb::cast<std::int64_t>(nb::object(pair[0])), nb::cast<std::int64_t>(nb::object(pair[1]))});
  return out;
}

// (peer, side, the peer's side, rotation, box to send or None, box to receive or None, phase)
std::vector<halo::Link> links_of(nb::handle links) {
  std::vector<halo::Link> out;
  for (const nb::handle link : links)
    out.push_back({nb::cast<std::int64_t>(nb::object(link[0])), link_side(nb::object(link[1])),
                   link_side(nb::object(link[2])), nb::cast<std::int64_t>(nb::object(link[3])),
                   cells_of(nb::object(link[4])), cells_of(nb::object(link[5])), nb::cast<int>(nb::object(link[6]))});
  return out;
}

halo::RankLinks given_links(nb::handle links, nb::handle dims) {
  halo::RankLinks own;
  own.links = links_of(links);
  own.dims = names_of(dims);
  return own;
}

// As long as it has cells: the native library checks their number and sign.
std::optional<std::int64_t> cells_in(nb::handle number) {
  if (!PyIndex_Check(number.ptr())) return std::nullopt;
  const std::int64_t cells = PyNumber_AsSsize_t(number.ptr(), PyExc_OverflowError);
  if (cells == -1 && PyErr_Occurred()) throw nb::python_error();
  return cells;
}

std::optional<halo::Cells> pair_in(nb::handle width) {
  if (const auto cells = cells_in(width)) return halo::Cells{*cells, *cells};
  if (!PySequence_Check(width.ptr()) || nb::len(width) != 2) return std::nullopt;
  const auto before = cells_in(nb::object(width[0])), after = cells_in(nb::object(width[1]));
  if (!before || !after) return std::nullopt;
  return halo::Cells{*before, *after};
}

// One number; or a number or a pair for each dimension.
Pairs widths_in(nb::handle width, std::size_t count) {
  const auto wrong = [&] { return halo::wrong_width(nb::repr(width).c_str(), count); };
  halo::Width given = std::vector<halo::Cells>();
  if (const auto cells = cells_in(width)) {
    given = *cells;
  } else {
    if (!PySequence_Check(width.ptr())) throw wrong();
    for (const nb::handle one : width) {
      const auto pair = pair_in(one);
      if (!pair) throw wrong();
      std::get<std::vector<halo::Cells>>(given).push_back(*pair);
    }
  }
  return pairs_of(halo::widths_of(given, count));
}

// Of each dimension a number of cells, or one for each block.
std::vector<halo::Integers> sizes_in(nb::handle sizes, const halo::Integers& counts) {
  std::vector<halo::BlockSizes> given;
  for (const nb::handle one : sizes) {
    const auto same = cells_in(one);
    given.push_back(same ? halo::BlockSizes(*same) : integers_of(one));
  }
  return halo::sizes_of(given, counts);
}

nb::object side_object(const halo::LinkSide& side) {
  if (const auto* const offsets = std::get_if<halo::Integers>(&side)) return tuple_of(*offsets);
  return nb::int_(std::get<std::int64_t>(side));
}

nb::object cells_tuple(const std::optional<halo::CellBox>& box) {
  if (!box) return nb::none();
  nb::list out;
  for (const auto& cells : *box) out.append(nb::make_tuple(cells.start, cells.stop));
  return nb::tuple(out);
}

// As links_of() takes them.
nb::list links_list(const halo::RankLinks& own) {
  nb::list out;
  for (const auto& link : own.links)
    out.append(nb::make_tuple(link.peer, side_object(link.side), side_object(link.peer_side), link.rotation,
                              cells_tuple(link.send), cells_tuple(link.receive), link.phase));
  return out;
}

// Of the sides, in the order of their numbers.
nb::list side_ends() {
  nb::list out;
  for (int side = 0; side < halo::kSides; ++side) {
    const auto [i, j] = halo::ends_of(static_cast<halo::Side>(side));
    out.append(nb::make_tuple(i, j));
  }
  return out;
}

// Blocks of a grid. They may have no sizes yet: those of the fields then.
class PythonGrid {
 public:
  PythonGrid(nb::handle grid, nb::handle periodic, nb::handle sizes, nb::handle corners, nb::handle dims)
      : counts(integers_of(grid)), size(halo::ranks_of(counts)) {
    if (nb::isinstance<nb::bool_>(periodic))
      is_periodic.assign(counts.size(), nb::cast<bool>(periodic));
    else
      for (const nb::handle one : periodic) is_periodic.push_back(PyObject_IsTrue(one.ptr()) == 1);
    if (is_periodic.size() != counts.size())
      throw Error(Status::inval,
                  formatted("grid {} with {} entries for periodic", tuple_text(counts), is_periodic.size()));
    const auto is_one_of = [&](const char* name) { return corners.equal(nb::str(name)); };
    if (!is_one_of("direct") && !is_one_of("none") && !is_one_of("sequential"))
      throw Error(Status::inval,
                  formatted("corners {}: expected 'direct', 'none' or 'sequential'", nb::repr(corners).c_str()));
    corner_kind = nb::cast<std::string>(corners);
    static const std::vector<std::string> kNames{"k", "j", "i"};
    const std::size_t usual = counts.empty() ? 3 : std::min<std::size_t>(3, counts.size());
    names =
        dims.is_none() ? std::vector(kNames.end() - static_cast<std::ptrdiff_t>(usual), kNames.end()) : names_of(dims);
    if (!sizes.is_none()) blocks = sizes_in(sizes, counts);
  }
  explicit PythonGrid(const nb::tuple& state)
      : PythonGrid(nb::object(state[0]), nb::object(state[1]), nb::object(state[2]), nb::object(state[3]),
                   nb::object(state[4])) {}

  nb::tuple state() const {
    return nb::make_tuple(tuple_of(counts), periodic(), sizes(), corner_kind, tuple_of(names));
  }
  nb::tuple periodic() const {
    nb::list out;
    for (const bool one : is_periodic) out.append(nb::bool_(one));
    return nb::tuple(out);
  }
  std::optional<nb::tuple> sizes() const {
    if (!blocks) return std::nullopt;
    nb::list out;
    for (const auto& along : *blocks) out.append(tuple_of(along));
    return nb::tuple(out);
  }
  const std::vector<halo::Integers>& known_sizes() const {
    if (!blocks)
      throw Error(Status::inval,
                  formatted("the blocks of grid {} have no sizes: call with_sizes(extents) first", tuple_text(counts)));
    return *blocks;
  }
  halo::RankLinks links(std::int64_t rank, nb::handle width) const {
    const auto kind = corner_kind == "sequential" ? halo::Corners::sequential
                      : corner_kind == "none"     ? halo::Corners::none
                                                  : halo::Corners::direct;
    // compile() refuses other numbers of names
    auto dims = names.size() == counts.size() ? names : std::vector<std::string>(counts.size());
    const halo::Cartesian grid({known_sizes(), is_periodic, kind});
    return halo::links_of(grid, rank, std::move(dims), cells_of_pairs(widths_in(width, counts.size())));
  }
  Pairs unowned(std::int64_t rank, nb::handle width) const {
    const halo::Cartesian grid({known_sizes(), is_periodic, halo::Corners::direct});
    return pairs_of(grid.unowned(rank, cells_of_pairs(widths_in(width, counts.size()))));
  }

  halo::Integers counts;
  std::int64_t size;
  std::vector<bool> is_periodic;
  std::string corner_kind;
  std::vector<std::string> names;
  std::optional<std::vector<halo::Integers>> blocks;
};

// Itself if it has sizes, else a copy.
nb::any with_sizes(nb::object self, nb::handle extents) {
  const auto& grid = nb::cast<const PythonGrid&>(self);
  if (grid.blocks) return nb::borrow<nb::any>(self);
  return nb::borrow<nb::any>(self.type()(tuple_of(grid.counts), grid.periodic(), nb::arg("sizes") = nb::borrow(extents),
                                         nb::arg("corners") = grid.corner_kind,
                                         nb::arg("dims") = tuple_of(grid.names)));
}

using Place = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // tile, row, col
using Neighbour = std::tuple<std::int64_t, int, int>;                // peer, rotation, the peer's side

// A number of ranks along both sides of a tile, or one for each.
std::int64_t layout_in(nb::handle layout) {
  if (const auto side = cells_in(layout)) return *side;
  const auto sides = integers_of(layout);
  if (sides.size() != 2 || sides[0] != sides[1])
    throw Error(Status::inval,
                formatted("layout {}: a cubed sphere needs as many ranks along j as along i", nb::str(layout).c_str()),
                halo::kUnsupported);
  return sides[0];
}

class PythonSphere {
 public:
  PythonSphere(nb::handle given, nb::handle given_fill)
      : layout(layout_in(given)), fill(nb::borrow(given_fill)), sphere_(checked()) {}

  std::int64_t size() const { return sphere_.size(); }
  Place place(std::int64_t rank) const {
    const auto place = sphere_.place(rank);
    return {place.tile, place.row, place.col};
  }
  std::optional<Neighbour> neighbour(std::int64_t rank, int side) const {
    const auto link = sphere_.neighbour(rank, side_of(side));
    if (!link) return std::nullopt;
    return Neighbour{link->peer, link->rotation, static_cast<int>(link->peer_side)};
  }
  std::pair<std::int64_t, int> step(std::int64_t rank, nb::handle side) const {
    const auto number = cells_in(side);
    if (!number || *number < 0 || *number > 3)
      throw Error(Status::inval, formatted("side {}: expected one of the edges 0 to 3", nb::repr(side).c_str()));
    const auto link = sphere_.neighbour(rank, static_cast<halo::Side>(*number)).value();
    return {link.peer, link.rotation};
  }
  halo::RankLinks links(std::int64_t rank) const {
    return halo::links_of(sphere_, rank,
                          fill.is_none()             ? halo::CornerFill::none
                          : fill.equal(nb::str("x")) ? halo::CornerFill::x
                                                     : halo::CornerFill::y);
  }

  std::int64_t layout;
  nb::object fill;

 private:
  halo::CubedSphere checked() const {
    if (!fill.is_none() && !fill.equal(nb::str("x")) && !fill.equal(nb::str("y")))
      throw Error(Status::inval, formatted("fill {}: expected None, 'x' or 'y'", nb::repr(fill).c_str()));
    return halo::CubedSphere(layout);
  }

  halo::CubedSphere sphere_;
};

}  // namespace

void bind_halo_topology(nb::module_& m) {
  nb::class_<halo::RankLinks>(m, "RankLinks")
      .def_static(
          "given", [](nb::sequence links, nb::sequence dims) { return given_links(links, dims); }, nb::arg("links"),
          nb::arg("dims"))
      .def_prop_ro("links", &links_list);
  nb::class_<PythonGrid>(m, "Cartesian")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(), nb::arg("grid"), nb::arg("periodic"),
           nb::kw_only(), nb::arg("sizes").none() = nb::none(), nb::arg("corners") = "direct",
           nb::arg("dims").none() = nb::none())
      .def("__getstate__", &PythonGrid::state)
      .def("__setstate__", [](PythonGrid& self, const nb::tuple& state) { new (&self) PythonGrid(state); })
      .def_prop_ro("grid", [](const PythonGrid& g) { return tuple_of(g.counts); })
      .def_prop_ro("periodic", &PythonGrid::periodic)
      .def_prop_ro("corners", [](const PythonGrid& g) { return g.corner_kind; })
      .def_prop_ro("dims", [](const PythonGrid& g) { return tuple_of(g.names); })
      .def_prop_ro("sizes", &PythonGrid::sizes)
      .def_ro("size", &PythonGrid::size)
      .def(
          "coordinates",
          [](const PythonGrid& g, std::int64_t rank) { return tuple_of(halo::coordinates_of(g.counts, rank)); },
          nb::arg("rank"))
      .def(
          "rank_of", [](const PythonGrid& g, nb::handle at) { return halo::rank_at(g.counts, integers_of(at)); },
          nb::arg("coordinates"))
      .def("with_sizes", &with_sizes, nb::arg("extents"))
      .def("unowned", &PythonGrid::unowned, nb::arg("rank"), nb::arg("width"));
  nb::class_<PythonSphere>(m, "CubedSphere")
      .def(nb::init<nb::handle, nb::handle>(), nb::arg("layout"), nb::kw_only(), nb::arg("fill").none() = nb::none())
      .def("__getstate__", [](const PythonSphere& s) { return nb::make_tuple(s.layout, s.fill); })
      .def("__setstate__",
           [](PythonSphere& self, const nb::tuple& state) {
             new (&self) PythonSphere(nb::object(state[0]), nb::object(state[1]));
           })
      .def_ro("layout", &PythonSphere::layout)
      .def_ro("fill", &PythonSphere::fill)
      .def_prop_ro("size", &PythonSphere::size)
      .def("place", &PythonSphere::place, nb::arg("rank"))
      .def("step", &PythonSphere::step, nb::arg("rank"), nb::arg("side"))
      .def("neighbour", &PythonSphere::neighbour, nb::arg("rank"), nb::arg("side"));
  m.def(
      "rank_links", [](const PythonGrid& g, std::int64_t rank, nb::object width) { return g.links(rank, width); },
      nb::arg("topology"), nb::arg("rank"), nb::arg("width"));
  m.def(
      "rank_links", [](const PythonSphere& s, std::int64_t rank, nb::object) { return s.links(rank); },
      nb::arg("topology"), nb::arg("rank"), nb::arg("width").none());
  m.def("halo_side_ends", &side_ends);
  m.def(
      "halo_widths", [](nb::object width, std::size_t count) { return widths_in(width, count); }, nb::arg("width"),
      nb::arg("count"));
  m.def(
      "check_symmetric_links", [](const std::vector<halo::RankLinks>& ranks) { halo::check_symmetric(ranks); },
      nb::arg("ranks"));
}

}  // namespace damacy::python
