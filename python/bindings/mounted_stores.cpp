// Binds the table of mounts, and the answers that stores of Python fill. Knows which functions Python calls.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/store/http/certificates.h"
#include "damacy/store/http/curl.h"
#include "damacy/store/mounts.h"
#include "damacy/store/reference_store.h"
#include "python_gate.h"
#include "python_store.h"
#include "remote_options.h"
#include "store_answer.h"

namespace damacy::python {

void bind_mounted_stores(nb::module_& m) {
  nb::class_<PythonAnswer>(m, "StoreAnswer")
      .def("absent", [](PythonAnswer& answer) { answer.absent(); })
      .def("found", &PythonAnswer::found_object, nb::arg("size"), nb::arg("tag"), nb::arg("modified_ns"),
           nb::arg("head").none() = nb::none())
      .def("bytes", &PythonAnswer::buffer, nb::arg("buffer"))
      .def("entries", &PythonAnswer::names, nb::arg("found"))
      .def("fail", &PythonAnswer::failed, nb::arg("message"), nb::arg("reason"), nb::arg("errno").none(),
           nb::arg("cause").none());
  m.def(
      "mount_store",
      [](const std::string& prefix, nb::object adapter, std::string name, double revalidate_s) {
        gate().drop_now();
        return mount(prefix, make_python_store(adapter, std::move(name), revalidate_s));
      },
      nb::arg("prefix"), nb::arg("adapter"), nb::arg("name"), nb::arg("revalidate_s"));
  m.def(
      "mount_directory",
      [](const std::string& prefix, nb::object adapter, const std::string& root) {
        gate().drop_now();
        return mount(prefix, make_python_directory(adapter, root));
      },
      nb::arg("prefix"), nb::arg("adapter"), nb::arg("root"));
  http::set_last_resort(certifi_file);
  m.def(
      "libcurl_facts",
      [] {
        const http::CurlFacts& facts = http::curl_facts();
        const http::Certificates found = without_gil([] { return http::find_certificates({}, false); });
        nb::dict out;
        out["path"] = str_of(facts.path);
        out["version"] = str_of(facts.version);
        out["certificates"] = str_of(found.missing.empty() ? found.shown : "none; looked for: " + found.missing);
        return out;
      },
      "Path and version of the libcurl in use, which is loaded, and the CA certificates that servers are checked with.");
  m.def("check_store_options", [](const nb::dict& fields) { check(store_options_of(fields)); }, nb::arg("fields"));
  m.def(
      "mount_options",
      [](const std::string& prefix, const nb::dict& fields, const std::optional<std::string>& root) {
        gate().drop_now();
        const StoreOptions options = store_options_of(fields);
        return without_gil([&] { return root ? mount(prefix, *root, options) : mount(prefix, options); });
      },
      nb::arg("prefix"), nb::arg("fields"), nb::arg("root").none() = nb::none(),
      "With `root`, the prefix is another name for that uri.");
  m.def(
      "mount_references",
      [](const std::string& prefix, const std::string& uri, const std::vector<std::string>& allow) {
        gate().drop_now();
        const auto store = call_without_gil(uri, [uri, allow] { return make_reference_store(uri, allow); });
        return std::pair(mount(prefix, store), store->name());
      },
      nb::arg("prefix"), nb::arg("uri"), nb::arg("allow"),
      "Reads the document of references. Returns the prefix and the name of the store.");
  m.def(
      "unmount",
      [](const std::string& prefix) {
        unmount(prefix);
        gate().drop_now();
      },
      nb::arg("prefix"));
  m.def(
      "mounts",
      [] {
        nb::list out;
        for (const auto& [prefix, store] : mounts())
          out.append(nb::make_tuple(str_of(prefix), str_of(store->name()), adapter_of(*store)));
        return out;
      },
      "For each mount its prefix, the name of its store, and the adapter if Python mounted it.");
  m.def(
      "end_python_stores",
      [] {
        const GilRelease unlocked;
        gate().close();
      },
      "Fails requests to stores of Python that are under way and all later ones. For an exit handler.");
}

}  // namespace damacy::python
