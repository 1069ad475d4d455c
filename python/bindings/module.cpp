// The extension damacy._native: makes the C++ library callable from Python. Decides nothing.
#include <map>
#include <utility>

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/device/cuda_device.h"
#include "damacy/zarr/array_info.h"

namespace damacy::python {
namespace {

nb::list dims_of(const ArrayInfo& info) {
  nb::list dims;
  for (const auto& name : info.dims) dims.append(name ? nb::object(nb::str(name->c_str(), name->size())) : nb::none());
  return dims;
}

nb::bytes element_bytes(const FillBytes& element, Dtype type) {
  return nb::bytes(reinterpret_cast<const char*>(element.data()), size_of(type));
}

nb::object cf_of(const ArrayInfo& info) {
  if (!info.cf) return nb::none();
  const auto or_none = [](const auto& value) { return value ? nb::object(nb::cast(*value)) : nb::none(); };
  nb::list missing;
  for (const FillBytes& element : info.cf->missing) missing.append(element_bytes(element, info.cf->missing_type));
  nb::dict out;
  out["scale_factor"] = or_none(info.cf->scale_factor);
  out["add_offset"] = or_none(info.cf->add_offset);
  out["unsigned"] = or_none(info.cf->is_unsigned);
  out["missing"] = missing;
  out["missing_type"] = name_of(info.cf->missing_type).data();
  return out;
}

nb::dict open_array_dict(const std::string& uri) {
  const ArrayInfo info = call_without_gil(uri, [uri] { return array_info(uri); });
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
  out["dims"] = nb::tuple(dims_of(info));
  out["fill"] = info.elements ? nb::object(element_bytes(info.fill, *info.elements)) : nb::none();
  out["cf"] = cf_of(info);
  out["cf_problem"] = info.cf_problem;
  out["attributes"] = nb::bytes(info.attributes_document.data(), info.attributes_document.size());
  return out;
}

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
  bind_plan(m);
  bind_memory_blocks(m);
  bind_memory_plan(m);
  bind_selection_reads(m);
  bind_cufile(m);
  m.def("open_array", &open_array_dict, nb::arg("uri"));
  m.def("backend_info", &backend_info);
  m.def("cuda_init_primary", &damacy::make_primary_current, nb::arg("device") = 0, nb::call_guard<GilRelease>(),
        "Makes the primary context of `device` current if this thread has none; False without a usable GPU.");
}
