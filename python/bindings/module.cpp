// The extension damacy._native: makes the C++ library callable from Python. Decides nothing.
#include <map>
#include <utility>

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/device/cuda_device.h"
#include "disk_cache.h"

namespace damacy::python {
namespace {

nb::dict backend_info() {
  const CudaProbe probe = without_gil([] { return probe_cuda(); });
  nb::dict out;
  out["version"] = DAMACY_VERSION;
  out["cuda"] = probe.state == CudaState::usable;
  out["cuda_reason"] = probe.why;
  out["cuda_build"] = cuda_build();
  return out;
}

}  // namespace

nb::object python_part(const std::string& module, const std::string& name) {
  static auto& known = *new std::map<std::pair<std::string, std::string>, PyObject*>;  // never freed
  PyObject*& part = known[{module, name}];
  if (part == nullptr) part = nb::object(nb::module_::import_(module.c_str()).attr(name.c_str())).release().ptr();
  return nb::borrow(part);
}

}  // namespace damacy::python

NB_MODULE(_native, m) {
  using namespace damacy::python;
  nb::set_leak_warnings(false);  // objects may be alive when the interpreter exits
  m.attr("__version__") = DAMACY_VERSION;
  bind_errors(m);
  bind_log(m);
  bind_pipeline(m);
  bind_halo(m);
  bind_halo_arrays(m);
  bind_halo_buffers(m);
  bind_halo_layouts(m);
  bind_halo_protocols(m);
  bind_halo_specs(m);
  bind_halo_exchange(m);
  bind_halo_steps(m);
  bind_halo_topology(m);
  bind_halo_messages(m);
  bind_halo_nccl(m);
  bind_halo_queue(m);
  bind_halo_transformer(m);
  bind_plan(m);
  bind_memory_blocks(m);
  bind_memory_plan(m);
  bind_disk_cache(m);
  bind_mounted_stores(m);
  bind_selection_reads(m);
  bind_cufile(m);
  bind_remote_files(m);
  bind_opening(m);
  m.def("backend_info", &backend_info);
  m.def("cuda_init_primary", &damacy::make_primary_current, nb::arg("device") = 0, nb::call_guard<GilRelease>(),
        "Makes the primary context of `device` current if this thread has none; False without a usable GPU.");
}
