// The extension damacy._native: what Python needs of the C++ library, and nothing that decides anything.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"

namespace damacy::python {
namespace {

nb::dict backend_info() {
  nb::dict out;
  out["version"] = DAMACY_VERSION;
  out["cuda"] = false;
  out["cuda_reason"] = "built without CUDA";
  return out;
}

}  // namespace
}  // namespace damacy::python

NB_MODULE(_native, m) {
  using namespace damacy::python;
  nb::set_leak_warnings(false);  // objects alive at interpreter exit are legal
  m.attr("__version__") = DAMACY_VERSION;
  bind_errors(m);
  bind_log(m);
  bind_pipeline(m);
  m.def("backend_info", &backend_info);
  m.def(
      "cuda_init_primary", [](int) { return false; }, nb::arg("device") = 0,
      "Makes the primary context of `device` current on this thread unless one is; False without a usable GPU.");
}
