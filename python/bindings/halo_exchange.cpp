// Plans of halo exchanges for Python: fields and links become messages. Decides nothing.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/halo/exchange_phases.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/link.h"
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

// `width`: one number; or None for links that all have boxes. `unowned`: corners to fill, from "x" or "y".
halo::ExchangePlan plan_of(nb::handle fields, nb::handle links, nb::handle dims, std::int64_t rank, nb::handle width,
                           const halo::VectorPairs& vectors, bool native, nb::handle unowned, const std::string& fill) {
  const auto wire = native ? halo::Wire::native : halo::Wire::ndsl;
  halo::RankLinks own;
  own.links = links_of(links);
  own.dims = names_of(dims);
  for (const nb::handle side : unowned) own.unowned.push_back(side_of(nb::cast<int>(side)));
  own.fill = fill == "x" ? halo::CornerFill::x : fill == "y" ? halo::CornerFill::y : halo::CornerFill::none;
  halo::Width cells = std::vector<halo::Cells>();
  if (!width.is_none()) cells = nb::cast<std::int64_t>(width);
  auto specs = quantities_of(fields);
  auto phases = halo::phases_of(specs, own, rank, cells, vectors);
  return {std::move(specs), rank, wire, std::move(phases)};
}

halo::ExchangePlan interfaces_of(nb::handle x, nb::handle y, nb::handle links, std::int64_t rank) {
  std::vector<halo::QuantityHaloSpec> specs{quantity_of(x), quantity_of(y)};
  auto phase = halo::interface_phase(specs[0], specs[1], links_of(links), rank);
  return {std::move(specs), rank, halo::Wire::ndsl, {std::move(phase)}, /*lines=*/true};
}

nb::dict messages_dict(const std::map<std::int64_t, std::vector<halo::Entry>>& messages) {
  nb::dict out;
  for (const auto& [peer, entries] : messages) out[nb::int_(peer)] = entries_tuple(entries);
  return out;
}

nb::list directs_list(const std::vector<halo::Direct>& directs) {
  nb::list out;
  for (const auto& direct : directs)
    out.append(nb::make_tuple(entry_tuple(direct.from), box_tuple(direct.to_x.field, direct.to_x.box),
                              direct.to_y ? box_tuple(direct.to_y->field, direct.to_y->box) : nb::none()));
  return out;
}

// (messages to send, messages to receive, direct copies) of each phase
nb::list phases_list(const halo::ExchangePlan& plan) {
  nb::list out;
  for (const auto& phase : plan.phases())
    out.append(nb::make_tuple(messages_dict(phase.sends), messages_dict(phase.receives), directs_list(phase.directs)));
  return out;
}

nb::tuple fields_tuple(const halo::ExchangePlan& plan) {
  nb::list out;
  for (const auto& field : plan.fields())
    out.append(nb::make_tuple(static_cast<int>(field.dtype), tuple_of(field.shape), tuple_of(field.strides),
                              field.i_axis, field.j_axis));
  return nb::tuple(out);
}

nb::bytes digest_bytes(const halo::Digest& digest) {
  return nb::bytes(static_cast<const void*>(digest.data()), sizeof digest);
}

}  // namespace

void bind_halo_exchange(nb::module_& m) {
  nb::class_<halo::ExchangePlan>(m, "ExchangePlan")
      .def_prop_ro("phases", &phases_list)
      .def_prop_ro("fields", &fields_tuple)
      .def("digests", [](const halo::ExchangePlan& plan, std::int64_t peer) {
        const auto [sent, expected] = plan.digests(peer);
        return nb::make_tuple(digest_bytes(sent), digest_bytes(expected));
      });
  m.def(
      "plan_exchange",
      [](nb::sequence fields, nb::sequence links, nb::sequence dims, std::int64_t rank, nb::object width,
         const halo::VectorPairs& vectors, bool native, nb::sequence unowned,
         const std::string& fill) { return plan_of(fields, links, dims, rank, width, vectors, native, unowned, fill); },
      nb::arg("fields"), nb::arg("links"), nb::arg("dims"), nb::arg("rank"), nb::arg("width").none(),
      nb::arg("vectors"), nb::arg("native"), nb::arg("unowned"), nb::arg("fill"));
  m.def(
      "plan_interfaces",
      [](nb::sequence x, nb::sequence y, nb::sequence links, std::int64_t rank) {
        return interfaces_of(x, y, links, rank);
      },
      nb::arg("x"), nb::arg("y"), nb::arg("links"), nb::arg("rank"));
  m.def(
      "halo_cells",
      [](nb::sequence field, nb::sequence dims) { return halo::cells_of(quantity_of(field), names_of(dims)); },
      nb::arg("field"), nb::arg("dims"));
  m.def(
      "check_halo_blocks",
      [](nb::sequence fields, nb::sequence dims, nb::sequence block, std::int64_t rank) {
        halo::check_block(quantities_of(fields), names_of(dims), integers_of(block), rank);
      },
      nb::arg("fields"), nb::arg("dims"), nb::arg("block"), nb::arg("rank"));
}

}  // namespace damacy::python
