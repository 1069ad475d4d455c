// Plans of halo exchanges for Python: fields and links become messages. Decides nothing.
#include <map>
#include <memory>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/halo/exchange_phases.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/exchanger.h"
#include "damacy/halo/topology.h"
#include "halo_channels.h"
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
  nb::class_<PythonRounds>(m, "ExchangeRounds")
      .def(nb::init<PlanPtr, int, std::optional<int>, nb::object, std::shared_ptr<LazyStreams>>(), nb::arg("plan"),
           nb::arg("slots"), nb::arg("device").none(), nb::arg("current_stream").none(),
           nb::arg("lazy").none() = nb::none())
      .def_ro("device", &PythonRounds::device)
      .def("message_bytes", &PythonRounds::message_bytes, nb::arg("phase"))
      .def("bind", &PythonRounds::bind, nb::arg("slot"), nb::arg("arrays"));
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
