// Plans of halo exchanges for Python: fields and links become messages. Decides nothing.
#include <map>
#include <memory>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/halo/exchange_copies.h"
#include "damacy/halo/exchange_phases.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/exchanger.h"
#include "damacy/halo/topology.h"
#include "halo_plan.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

halo::Integers integers_of(nb::handle sequence) {
  halo::Integers out;
  for (const nb::handle item : sequence) out.push_back(nb::cast<std::int64_t>(item));
  return out;
}

std::vector<halo::QuantityHaloSpec> quantities_of(nb::handle fields) {
  std::vector<halo::QuantityHaloSpec> out;
  for (const nb::handle field : fields) out.push_back(quantity_of(field));
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

halo::RankLinks sphere_links(std::int64_t layout, std::int64_t rank, const std::string& fill) {
  return halo::links_of(halo::CubedSphere(layout), rank,
                        fill == "x"   ? halo::CornerFill::x
                        : fill == "y" ? halo::CornerFill::y
                                      : halo::CornerFill::none);
}

halo::RankLinks grid_links(std::vector<halo::Integers> sizes, std::vector<bool> periodic, const std::string& corners,
                           std::int64_t rank, std::vector<std::string> dims, const Pairs& widths) {
  const auto kind = corners == "sequential" ? halo::Corners::sequential
                    : corners == "none"     ? halo::Corners::none
                                            : halo::Corners::direct;
  return halo::links_of(halo::Cartesian({std::move(sizes), std::move(periodic), kind}), rank, std::move(dims),
                        cells_of_pairs(widths));
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
nb::tuple block_sizes_of(nb::handle sizes, const halo::Integers& counts) {
  std::vector<halo::BlockSizes> given;
  for (const nb::handle one : sizes) {
    const auto same = cells_in(one);
    given.push_back(same ? halo::BlockSizes(*same) : integers_of(one));
  }
  nb::list out;
  for (const auto& along : halo::sizes_of(given, counts)) out.append(tuple_of(along));
  return nb::tuple(out);
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

using PlanPtr = std::shared_ptr<const halo::ExchangePlan>;

// One phase of a plan.
struct PlanPhase {
  PlanPtr plan;
  std::size_t index;

  const halo::ExchangePhase& operator*() const { return plan->phases()[index]; }
};

// The copies of an exchanger. Messages are in dicts by peer.
class PythonCopies {
 public:
  PythonCopies(PlanPtr plan, int slots) : plan_(std::move(plan)), copies_(*plan_, slots) {}

  // (of messages that are sent, of those that are received)
  nb::tuple message_bytes(std::size_t phase) const {
    const halo::ExchangePhase& own = plan_->phases()[phase];
    return nb::make_tuple(bytes_of(own.sends, copies_.send_bytes(phase)),
                          bytes_of(own.receives, copies_.receive_bytes(phase)));
  }

  void set_messages(int slot, std::size_t phase, const nb::dict& sends, const nb::dict& receives) {
    const halo::ExchangePhase& own = plan_->phases()[phase];
    copies_.set_messages(slot, phase, addresses_of(own.sends, sends), addresses_of(own.receives, receives));
  }

  // Of each phase, what packs and what unpacks; None if there is nothing to copy.
  nb::list bind(int slot, const halo::Addresses& arrays) {
    const halo::ExchangeCopies::Phases phases = copies_.of(slot, arrays);
    if (const auto known = made_.find(phases); known != made_.end()) return known->second;
    if (made_.size() > kMostMade) made_.clear();
    nb::list out;
    for (const auto& [pack, unpack] : *phases) out.append(nb::make_tuple(object(pack), object(unpack)));
    made_.emplace(phases, out);
    return out;
  }

 private:
  using Entries = std::map<std::int64_t, std::vector<halo::Entry>>;  // by peer

  static nb::dict bytes_of(const Entries& messages, const std::vector<std::int64_t>& bytes) {
    nb::dict out;
    std::size_t i = 0;
    for (const auto& [peer, entries] : messages) out[nb::int_(peer)] = bytes.at(i++);
    return out;
  }

  static halo::Addresses addresses_of(const Entries& messages, const nb::dict& addresses) {
    halo::Addresses out;
    for (const auto& [peer, entries] : messages)
      out.push_back(nb::cast<std::uint64_t>(nb::object(addresses[nb::int_(peer)])));
    return out;
  }

  static nb::object object(const halo::ExchangeCopies::Copies& copies) {
    return copies.plan == nullptr ? nb::none() : nb::cast(BoundCopies{copies.plan, copies.bases});
  }

  static constexpr std::size_t kMostMade = 32;

  const PlanPtr plan_;
  halo::ExchangeCopies copies_;
  std::map<halo::ExchangeCopies::Phases, nb::list> made_;  // of the same phases the same objects: they cost time
};

// `width`: one number; or None for links that all have boxes.
PlanPtr plan_of(nb::handle fields, const halo::RankLinks& links, std::int64_t rank, nb::handle width,
                const halo::VectorPairs& vectors, bool native) {
  halo::Width cells = std::vector<halo::Cells>();
  if (!width.is_none()) cells = nb::cast<std::int64_t>(width);
  halo::ExchangeOptions options;
  options.vectors = vectors;
  options.wire = native ? halo::Wire::native : halo::Wire::ndsl;
  return halo::compile(quantities_of(fields), links, rank, cells, options);
}

nb::dict messages_dict(const std::map<std::int64_t, std::vector<halo::Entry>>& messages) {
  nb::dict out;
  for (const auto& [peer, entries] : messages) out[nb::int_(peer)] = entries_tuple(entries);
  return out;
}

nb::list phases_list(const PlanPtr& plan) {
  nb::list out;
  for (std::size_t n = 0; n < plan->phases().size(); ++n) out.append(nb::cast(PlanPhase{plan, n}));
  return out;
}

}  // namespace

void bind_halo_exchange(nb::module_& m) {
  nb::class_<halo::RankLinks>(m, "RankLinks")
      .def_static(
          "given", [](nb::sequence links, nb::sequence dims) { return given_links(links, dims); }, nb::arg("links"),
          nb::arg("dims"))
      .def_static("of_sphere", &sphere_links, nb::arg("layout"), nb::arg("rank"), nb::arg("fill"))
      .def_static("of_grid", &grid_links, nb::arg("sizes"), nb::arg("periodic"), nb::arg("corners"), nb::arg("rank"),
                  nb::arg("dims"), nb::arg("widths"))
      .def_prop_ro("links", &links_list);
  nb::class_<PlanPhase>(m, "ExchangePhase")
      .def_prop_ro("sends", [](const PlanPhase& phase) { return messages_dict((*phase).sends); })
      .def_prop_ro("receives", [](const PlanPhase& phase) { return messages_dict((*phase).receives); });
  nb::class_<halo::ExchangePlan>(m, "ExchangePlan")
      .def_prop_ro("phases", &phases_list)
      .def("check_count", &halo::ExchangePlan::check_count, nb::arg("arrays"))
      .def(
          "check_array",
          [](const halo::ExchangePlan& plan, std::size_t index, int dtype, nb::sequence shape, nb::sequence strides) {
            plan.check_array(index, static_cast<Dtype>(dtype), dims_of(shape), dims_of(strides));
          },
          nb::arg("index"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"))
      .def_prop_ro("peers", [](const halo::ExchangePlan& plan) { return plan.peers(); })
      .def("adjoint",
           [](const halo::ExchangePlan& plan) { return std::make_shared<const halo::ExchangePlan>(plan.adjoint()); })
      .def("digests", [](const halo::ExchangePlan& plan, std::int64_t peer) {
        const auto [sent, expected] = plan.digests(peer);
        return nb::make_tuple(digest_bytes(sent), digest_bytes(expected));
      });
  nb::class_<PythonCopies>(m, "ExchangeCopies")
      .def(nb::init<PlanPtr, int>(), nb::arg("plan"), nb::arg("slots"))
      .def("message_bytes", &PythonCopies::message_bytes, nb::arg("phase"))
      .def("set_messages", &PythonCopies::set_messages, nb::arg("slot"), nb::arg("phase"), nb::arg("sends"),
           nb::arg("receives"))
      .def("bind", &PythonCopies::bind, nb::arg("slot"), nb::arg("arrays"));
  m.def(
      "plan_exchange",
      [](nb::sequence fields, const halo::RankLinks& links, std::int64_t rank, nb::object width,
         const halo::VectorPairs& vectors,
         bool native) { return plan_of(fields, links, rank, width, vectors, native); },
      nb::arg("fields"), nb::arg("links"), nb::arg("rank"), nb::arg("width").none(), nb::arg("vectors"),
      nb::arg("native"));
  m.def(
      "plan_interfaces",
      [](nb::sequence x, nb::sequence y, const halo::RankLinks& links, std::int64_t rank) {
        return halo::compile_interfaces(quantity_of(x), quantity_of(y), links, rank);
      },
      nb::arg("x"), nb::arg("y"), nb::arg("links"), nb::arg("rank"));
  m.def(
      "halo_widths", [](nb::object width, std::size_t count) { return widths_in(width, count); }, nb::arg("width"),
      nb::arg("count"));
  m.def(
      "cartesian_sizes", [](nb::sequence sizes, const halo::Integers& counts) { return block_sizes_of(sizes, counts); },
      nb::arg("sizes"), nb::arg("grid"));
  m.def(
      "check_symmetric_links", [](const std::vector<halo::RankLinks>& ranks) { halo::check_symmetric(ranks); },
      nb::arg("ranks"));
  m.def(
      "halo_cells",
      [](nb::sequence field, nb::sequence dims) { return halo::cells_of(quantity_of(field), names_of(dims)); },
      nb::arg("field"), nb::arg("dims"));
}

}  // namespace damacy::python
