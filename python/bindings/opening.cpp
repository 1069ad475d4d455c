// Descriptions of arrays, images, plates and groups, as Python's containers, and reads of opened arrays.
#include <algorithm>
#include <stop_token>
#include <utility>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/cache/disk/environment_tier.h"
#include "damacy/core/fork.h"
#include "damacy/single/array_read.h"
#include "damacy/single/nodes_opening.h"
#include "damacy/store/mounts.h"
#include "damacy/zarr/catalog.h"
#include "damacy/zarr/node_info.h"

namespace damacy::python {
namespace {

nb::object object_of(const std::optional<std::string>& text) {
  return text ? nb::object(nb::str(text->c_str(), text->size())) : nb::none();
}

template <class Texts>
nb::tuple texts_of(const Texts& texts) {
  nb::list list;
  for (const auto& text : texts) list.append(object_of(text));
  return nb::tuple(list);
}

nb::object object_of(const std::optional<NgffProblem>& problem) {
  return problem ? nb::object(nb::make_tuple(problem->pointer, problem->message)) : nb::none();
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

nb::dict dict_of(const ArrayInfo& info) {
  nb::dict out;
  out["uri"] = info.uri;
  out["shape"] = tuple_of(info.shape);
  out["dtype"] = info.dtype;
  out["chunks"] = tuple_of(info.chunks);
  out["shards"] = info.shards ? nb::object(tuple_of(*info.shards)) : nb::none();
  out["zarr_format"] = info.zarr_format;
  out["time_unit"] = info.time_unit;
  out["codecs"] = tuple_of(info.codecs);
  out["levels"] = tuple_of(info.levels);
  out["supported"] = info.supported;
  out["why_not"] = info.why_not;
  out["dims"] = texts_of(info.dims);
  out["fill"] = info.elements ? nb::object(element_bytes(info.fill, *info.elements)) : nb::none();
  out["cf"] = cf_of(info);
  out["cf_problem"] = info.cf_problem;
  out["attributes"] = nb::bytes(info.attributes_document.data(), info.attributes_document.size());
  return out;
}

nb::dict dict_of(const NgffImage& image) {
  nb::list axes, levels;
  for (const NgffAxis& axis : image.axes)
    axes.append(nb::make_tuple(object_of(axis.name), object_of(axis.type), object_of(axis.unit)));
  for (const NgffLevel& level : image.levels)
    levels.append(
        nb::make_tuple(level.path, tuple_of(level.scale), tuple_of(level.translation), object_of(level.problem)));
  nb::dict out;
  out["name"] = image.name;
  out["version"] = object_of(image.version);
  out["has_transformations"] = image.has_transformations;
  out["axes"] = axes;
  out["levels"] = levels;
  return out;
}

nb::object plate_of(const Ngff& ngff) {
  if (!ngff.plate) return nb::none();
  nb::list acquisitions;
  for (const NgffAcquisition& one : ngff.plate->acquisitions)
    acquisitions.append(nb::make_tuple(one.id, object_of(one.name)));
  nb::dict out;
  out["name"] = object_of(ngff.plate->name);
  out["rows"] = tuple_of(ngff.plate->rows);
  out["columns"] = tuple_of(ngff.plate->columns);
  out["wells"] = tuple_of(ngff.plate->wells);
  out["field_count"] = ngff.plate->field_count ? nb::object(nb::int_(*ngff.plate->field_count)) : nb::none();
  out["acquisitions"] = nb::tuple(acquisitions);
  return out;
}

nb::dict dict_of(const Ngff& ngff) {
  nb::list images, channels, fields, problems;
  for (const NgffImage& image : ngff.images) images.append(dict_of(image));
  for (const NgffChannel& channel : ngff.channels)
    channels.append(nb::make_tuple(
        object_of(channel.label), object_of(channel.color),
        channel.window ? nb::object(nb::make_tuple((*channel.window)[0], (*channel.window)[1])) : nb::none()));
  for (const NgffField& field : ngff.fields)
    fields.append(
        nb::make_tuple(field.path, field.acquisition ? nb::object(nb::int_(*field.acquisition)) : nb::none()));
  for (const NgffProblem& problem : ngff.problems) problems.append(nb::make_tuple(problem.pointer, problem.message));
  nb::dict out;
  out["images"] = images;
  out["channels"] = channels;
  out["labels"] = tuple_of(ngff.labels);
  out["is_label"] = ngff.is_label;
  out["label_source"] = object_of(ngff.label_source);
  out["plate"] = plate_of(ngff);
  out["fields"] = fields;
  out["problems"] = problems;
  return out;
}

nb::dict dict_of(const NodeInfo& info) {
  constexpr const char* kKinds[] = {"array", "image", "plate", "group"};
  nb::dict out;
  out["kind"] = kKinds[static_cast<int>(info.kind)];
  out["zarr_format"] = info.zarr_format;
  out["array"] = info.array ? nb::object(dict_of(*info.array)) : nb::none();
  out["attributes"] = nb::bytes(info.attributes_document.data(), info.attributes_document.size());
  out["ngff"] = dict_of(info.ngff);
  return out;
}

// Where an opened array lies, whatever is mounted later. It is not part of pickles.
struct OpenedPlace {
  MountedUri place;
};

nb::dict with_place(nb::dict array, MountedUri place) {
  array["place"] =
      place.uri.empty() || file_path_of_uri(place.uri) ? nb::none() : nb::cast(OpenedPlace{std::move(place)});
  return array;
}

nb::dict dict_of(const NodeInfo& info, MountedUri place) {
  nb::dict out = dict_of(info);
  if (info.array) out["array"] = with_place(dict_of(*info.array), std::move(place));
  return out;
}

nb::dict open_node(const std::string& uri) {
  auto [info, place] = call_without_gil(uri, [uri] {
    MountedUri found = find_mount(uri);
    return std::pair(node_info(uri, store_of_node(found)), std::move(found));
  });
  return dict_of(info, std::move(place));
}

nb::object object_of(const NodesOpening::Opened& opened, bool arrays) {
  if (!opened.error)
    return arrays ? with_place(dict_of(*opened.node->array), opened.place) : dict_of(*opened.node, opened.place);
  try {
    std::rethrow_exception(opened.error);
  } catch (const Error& error) {
    return exception_of(error);
  } catch (const std::bad_alloc&) {
    return exception_of(Error::out_of_memory());
  }
}

// The nodes of many uris, which native threads open.
class OpeningNodes {
 public:
  OpeningNodes(std::vector<std::string> uris, bool arrays)
      : arrays_(arrays), opening_(std::move(uris), arrays ? NodesOpening::What::arrays : NodesOpening::What::nodes) {}

  nb::list take() {
    constexpr std::size_t kMost = 256;  // then signals are looked for
    std::vector<NodesOpening::Opened> taken;
    {
      const auto look = signal_checker();
      const GilRelease unlocked;
      taken = opening_.take(kMost, look);
    }
    nb::list out;
    for (const NodesOpening::Opened& each : taken) out.append(object_of(each, arrays_));
    return out;
  }
  void close() {
    const GilRelease unlocked;
    opening_.close();
  }

 private:
  const bool arrays_;
  NodesOpening opening_;
};

nb::dict open_array(const std::string& uri) {
  return with_place(dict_of(call_without_gil(uri, [uri] { return array_info(uri); })), {});
}

std::vector<std::string> group_members(const std::string& uri) {
  return call_without_gil(uri, [uri] { return members_of_group(uri); });
}

void refuse_group_at(const std::string& uri) {
  call_without_gil(uri, [uri] {
    refuse_group(uri);
    return true;
  });
}

// The arrays that this process reads by `Array.read`.
struct OpenedFiles {
  Catalog catalog{CatalogLimits{}};
};
struct OpenedRemote {
  Catalog catalog{CatalogLimits{}, environment_disk_tier()};
};

Catalog& catalog_of(const std::string& uri) {
  return file_path_of_uri(uri) ? one_per_process<OpenedFiles>().catalog : one_per_process<OpenedRemote>().catalog;
}

// Without a place, where the uri leads now.
MountedUri place_of(const std::string& uri, const OpenedPlace* opened) {
  return opened != nullptr ? opened->place : find_mount(uri);
}

// A cached array that was rewritten is opened again.
std::shared_ptr<const Array> opened_array(const MountedUri& place) {
  Catalog& catalog = catalog_of(place.uri);
  try {
    return catalog.array(place);
  } catch (const Error& error) {
    if (error.where().reason != "changed") throw;
    return catalog.array(place);
  }
}

std::uint64_t stored_bytes_of(const std::string& uri, const OpenedPlace* opened) {
  return call_without_gil(uri, [place = place_of(uri, opened)] { return stored_bytes(*opened_array(place)); });
}

// Keeps a Python buffer until a read has ended, also if the caller was interrupted.
class HeldBuffer {
 public:
  explicit HeldBuffer(nb::handle object) : view_(new BufferView(object, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)) {}
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;
  ~HeldBuffer() {
    if (!Py_IsInitialized()) return;  // leaks the view
    const GilAcquire gil;
    delete view_;
  }
  std::span<std::byte> bytes() const noexcept { return view_->bytes(); }

 private:
  BufferView* view_;
};

using Stretches = std::vector<std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>>;

std::vector<std::vector<AxisStretch>> axes_of(const Stretches& given) {
  std::vector<std::vector<AxisStretch>> axes;
  for (const auto& axis : given) {
    auto& stretches = axes.emplace_back();
    for (const auto& [start, step, count] : axis) stretches.push_back({start, step, count});
  }
  return axes;
}

// The array at `place`, if it still has the shape and type of the description that the caller has.
std::shared_ptr<const Array> array_as_described(const MountedUri& place, const std::vector<std::int64_t>& shape,
                                                const std::string& dtype) {
  auto array = opened_array(place);
  if (!std::ranges::equal(array->shape(), shape) || name_of(array->dtype()) != dtype)
    throw Error(Status::io, "the array has another shape or type than when it was opened: open it again", "changed");
  return array;
}

// Also throws if another store is mounted at `uri` now: a pipeline reads that one.
void check_array(const std::string& uri, const std::vector<std::int64_t>& shape, const std::string& dtype,
                 const OpenedPlace* opened) {
  call_without_gil(uri, [place = place_of(uri, opened), shape, dtype] {
    if (find_mount(place.uri).mount != place.mount)
      throw Error(Status::io, "another store was mounted at the uri after the array was opened: open it again",
                  "changed");
    (void)array_as_described(place, shape, dtype);
    return true;
  });
}

// Fills `out` with the elements whose indices are in the stretches (start, step, count) of each axis. Throws what
// check_array throws.
void read_array(const std::string& uri, const std::vector<std::int64_t>& shape, const std::string& dtype,
                const Stretches& stretches, nb::handle out, const OpenedPlace* opened) {
  const auto buffer = std::make_shared<const HeldBuffer>(out);
  std::stop_source stop;
  try {
    call_without_gil(uri, [place = place_of(uri, opened), shape, dtype, axes = axes_of(stretches), buffer,
                           stopped = stop.get_token()] {
      const auto array = array_as_described(place, shape, dtype);
      read_stretches(*array, axes, buffer->bytes(), stopped);
      return true;
    });
  } catch (...) {
    stop.request_stop();
    throw;
  }
}

}  // namespace

void bind_opening(nb::module_& m) {
  nb::class_<OpenedPlace>(m, "OpenedPlace")
      .def("__reduce__", [](nb::handle) { return nb::make_tuple(nb::none().type(), nb::tuple()); })
      .def("__deepcopy__", [](nb::object self, nb::handle) { return self; });
  m.def("open_array", &open_array, nb::arg("uri"));
  m.def("open_node", &open_node, nb::arg("uri"));
  nb::class_<OpeningNodes>(m, "OpeningNodes")
      .def(nb::init<std::vector<std::string>, bool>(), nb::arg("uris"), nb::arg("arrays"))
      .def("take", &OpeningNodes::take)
      .def("close", &OpeningNodes::close);
  m.def("group_members", &group_members, nb::arg("uri"));
  m.def("refuse_group", &refuse_group_at, nb::arg("uri"));
  m.def("stored_bytes", &stored_bytes_of, nb::arg("uri"), nb::arg("place").none() = nb::none());
  m.def("check_array", &check_array, nb::arg("uri"), nb::arg("shape"), nb::arg("dtype"),
        nb::arg("place").none() = nb::none());
  m.def("read_array", &read_array, nb::arg("uri"), nb::arg("shape"), nb::arg("dtype"), nb::arg("stretches"),
        nb::arg("out"), nb::arg("place").none() = nb::none());
}

}  // namespace damacy::python
