// The objects of a folder for damacy.zarr.GDSStore: keys are bytes, objects files of damacy.cufile. Decides nothing.
#include "damacy/fileio/gds_store.h"

#include <string_view>
#include <utility>

#include "cufile.h"

namespace damacy::python {
namespace {

std::string_view view_of(const nb::bytes& bytes) {
  return {bytes.c_str(), bytes.size()};
}

// (file, bytes), or None.
nb::object open_object(GDSStore& store, const nb::bytes& key) {
  auto object = without_gil([&, name = view_of(key)] { return store.open(name); });
  if (!object) return nb::none();
  return nb::make_tuple(nb::cast(new NativeFile(std::move(object->file)), nb::rv_policy::take_ownership), object->size);
}

nb::list keys_of(GDSStore& store, const nb::bytes& prefix) {
  nb::list out;
  for (const auto& key : without_gil([&, begin = view_of(prefix)] { return store.keys(begin); }))
    out.append(nb::bytes(key.data(), key.size()));
  return out;
}

}  // namespace

void bind_gds_store(nb::module_& m) {
  using nb::arg;
  nb::class_<NewObject>(m, "NewObject")
      .def_prop_ro(
          "file", [](NewObject& object) { return new NativeFile(object.file()); }, nb::rv_policy::take_ownership)
      .def(
          "commit",
          [](NewObject& object, bool only_new, bool replaces_folder) {
            without_gil([&] { object.commit({only_new, replaces_folder}); });
          },
          arg("only_new"), arg("replaces_folder"))
      .def("discard", &NewObject::discard);
  nb::class_<GDSStore>(m, "GDSStore")
      .def(
          "__init__", [](GDSStore* self, const nb::bytes& root) { new (self) GDSStore(std::string(view_of(root))); },
          arg("root"))
      .def("open", &open_object, arg("key"), nb::sig("def open(self, key: bytes) -> tuple[CuFile, int] | None"))
      .def(
          "create",
          [](GDSStore& store, const nb::bytes& key) {
            return without_gil([&, name = view_of(key)] { return store.create(name); });
          },
          arg("key"))
      .def(
          "erase",
          [](GDSStore& store, const nb::bytes& key) {
            return without_gil([&, name = view_of(key)] { return store.erase(name); });
          },
          arg("key"))
      .def("keys", &keys_of, arg("prefix"))
      .def_static("is_partial", [](const nb::bytes& name) { return GDSStore::is_partial(view_of(name)); }, arg("name"));
}

}  // namespace damacy::python
