// Copy plans of halo exchanges for Python. Decides nothing.
#include <map>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/copy/copy_plan.h"
#include "damacy/halo/plan_cache.h"
#include "damacy/halo/wire.h"
#include "halo_plan.h"

namespace damacy::python {

void bind_halo(nb::module_& m) {
  nb::class_<CopyPlan>(m, "CopyPlan")
      .def_prop_ro("buffer_bytes", [](const CopyPlan& p) { return p.compiled->buffer_bytes; })
      .def_prop_ro("bytes", [](const CopyPlan& p) { return p.plan->bytes(); })
      .def_prop_ro("launches", [](const CopyPlan& p) { return p.plan->phases().size(); })
      .def("describe", [](const CopyPlan& p) { return p.plan->describe(); })
      .def("__hash__", [](const CopyPlan& p) { return p.plan->hash(); })
      .def(
          "__eq__", [](const CopyPlan& a, const CopyPlan& b) { return *a.plan == *b.plan; }, nb::is_operator(),
          nb::sig("def __eq__(self, arg: object, /) -> bool"));
  nb::class_<BoundCopies>(m, "BoundCopies")
      .def(
          "run", [](const BoundCopies& b, unsigned threads) { copy::run(*b.plan, *b.bases, threads); },
          nb::arg("threads") = 1, nb::call_guard<GilRelease>());
  m.def("cached_halo_plans", [] {
    nb::dict out;
    for (const auto& [key, plan] : halo::cached_plans())
      out[nb::bytes(key.data(), key.size())] = nb::cast(CopyPlan(plan));
    return out;
  });
  m.def("clear_cached_halo_plans", &halo::clear_cached_plans);
}

}  // namespace damacy::python
