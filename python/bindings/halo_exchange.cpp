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

std::vector<halo::QuantityHaloSpec> quantities_of(nb::handle fields) {
  std::vector<halo::QuantityHaloSpec> out;
  for (const nb::handle field : fields) out.push_back(quantity_of(field));
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

  // `places`: address and bytes by peer, of what is sent and of what is received.
  void set_messages(int slot, std::size_t phase, const nb::tuple& places) {
    const halo::ExchangePhase& own = plan_->phases()[phase];
    copies_.set_messages(slot, phase, addresses_of(own.sends, nb::object(places[0])),
                         addresses_of(own.receives, nb::object(places[1])));
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

  static halo::Addresses addresses_of(const Entries& messages, nb::handle places) {
    halo::Addresses out;
    for (const auto& [peer, entries] : messages)
      out.push_back(nb::cast<std::uint64_t>(nb::object(places[nb::int_(peer)][nb::int_(0)])));
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
      .def("set_messages", &PythonCopies::set_messages, nb::arg("slot"), nb::arg("phase"), nb::arg("places"))
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
      "halo_cells",
      [](nb::sequence field, nb::sequence dims) { return halo::cells_of(quantity_of(field), names_of(dims)); },
      nb::arg("field"), nb::arg("dims"));
}

}  // namespace damacy::python
