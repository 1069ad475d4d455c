// The extension damacy._native: what Python needs of the C++ library, and nothing that decides anything.
#include <map>
#include <utility>

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/device/cuda_device.h"
#include "damacy/zarr/array_info.h"

namespace damacy::python {
namespace {

nb::dict open_array_dict(const std::string& uri) {
  const ArrayInfo info = ask_without_gil(uri, [uri] { return array_info(uri); });
  nb::dict out;
  out["uri"] = info.uri;
  out["shape"] = tuple_of(info.shape);
  out["dtype"] = info.dtype;
  out["chunks"] = tuple_of(info.chunks);
  out["shards"] = info.shards ? nb::object(tuple_of(*info.shards)) : nb::none();
  out["zarr_format"] = info.zarr_format;
  out["codecs"] = tuple_of(info.codecs);
  out["levels"] = tuple_of(info.levels);
  out["supported"] = info.supported;
  out["why_not"] = info.why_not;
  return out;
}

nb::dict backend_info() {
  const CudaProbe probe = without_gil([] { return probe_cuda(); });
  nb::dict out;
  out["version"] = DAMACY_VERSION;
  out["cuda"] = probe.state == CudaState::usable;
  out["cuda_reason"] = probe.why;
  return out;
}

}  // namespace

nb::object python_part(const std::string& module, const std::string& name) {
  static auto& known = *new std::map<std::pair<std::string, std::string>, PyObject*>;  // for ever
  PyObject*& part = known[{module, name}];
  if (part == nullptr) part = nb::object(nb::module_::import_(module.c_str()).attr(name.c_str())).release().ptr();
  return nb::borrow(part);
}

}  // namespace damacy::python

NB_MODULE(_native, m) {
  using namespace damacy::python;
  nb::set_leak_warnings(false);  // objects alive at interpreter exit are legal
  m.attr("__version__") = DAMACY_VERSION;
  bind_errors(m);
  bind_log(m);
  bind_pipeline(m);
  bind_halo(m);
  bind_plan(m);
  bind_memory_blocks(m);
  bind_selection_reads(m);
  bind_cufile(m);
  m.def("open_array", &open_array_dict, nb::arg("uri"));
  m.def("backend_info", &backend_info);
  m.def("cuda_init_primary", &damacy::make_primary_current, nb::arg("device") = 0, nb::call_guard<Unlocked>(),
        "Makes the primary context of `device` current on this thread unless one is; False without a usable GPU.");
}
