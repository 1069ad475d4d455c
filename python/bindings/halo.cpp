// Copy plans and halo wires for Python: converts tuples of integers to plans. Decides nothing.
#include <map>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/copy/copy_plan.h"
#include "damacy/device/cuda_device.h"
#include "damacy/halo/plan_cache.h"
#include "damacy/halo/topology.h"
#include "damacy/halo/wire.h"
#include "damacy/halo/work_order.h"
#include "halo_plan.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

using Bases = std::vector<std::uint64_t>;
using Handles = std::vector<std::uint64_t>;

// (dtype, shape, strides, i_axis, j_axis), and the strides that order the axes of a native wire if they are others.
halo::Field field_of(nb::handle tuple) {
  halo::Field field;
  field.dtype = static_cast<Dtype>(nb::cast<int>(tuple[0]));
  field.shape = dims_of(tuple[1]);
  field.strides = dims_of(tuple[2]);
  field.i_axis = nb::cast<int>(tuple[3]);
  field.j_axis = nb::cast<int>(tuple[4]);
  if (nb::len(tuple) > 5) field.ranking = dims_of(tuple[5]);
  return field;
}

// (field, start, stop)
halo::FieldBox box_of(nb::handle tuple) {
  return {nb::cast<std::uint32_t>(tuple[0]), {dims_of(tuple[1]), dims_of(tuple[2])}};
}

std::optional<halo::FieldBox> box_or_none(nb::handle tuple) {
  if (tuple.is_none()) return std::nullopt;
  return box_of(tuple);
}

// (x box, y box or None, rotation, for a scalar whether it is negated)
halo::Entry entry_of(nb::handle tuple) {
  const bool negate = nb::len(tuple) > 3 && nb::cast<bool>(tuple[3]);
  return {box_of(tuple[0]), box_or_none(nb::object(tuple[1])), nb::cast<int>(tuple[2]), negate};
}

// Messages are (entries, native); directs (entry, x box, y box or None).
CopyPlan halo_plan(nb::sequence fields, nb::sequence messages, nb::sequence directs, bool unpack, bool adjoint) {
  std::vector<halo::Field> parsed_fields;
  for (const nb::handle item : fields) parsed_fields.push_back(field_of(item));
  std::vector<halo::Message> parsed;
  for (const nb::handle item : messages) {
    halo::Message message;
    for (const nb::handle entry : nb::object(item[0])) message.entries.push_back(entry_of(entry));
    message.wire = nb::cast<bool>(item[1]) ? halo::Wire::native : halo::Wire::ndsl;
    parsed.push_back(std::move(message));
  }
  std::vector<halo::Direct> parsed_directs;
  for (const nb::handle item : directs)
    parsed_directs.push_back(
        {entry_of(nb::object(item[0])), box_of(nb::object(item[1])), box_or_none(nb::object(item[2]))});
  return CopyPlan(halo::cached_plan(parsed_fields, parsed, unpack ? halo::Direction::unpack : halo::Direction::pack,
                                    parsed_directs, adjoint));
}

void run_plan(const copy::Plan& plan, const Bases& bases, unsigned threads) {
  const GilRelease unlocked;
  copy::run(plan, bases, threads);
}

// Orders one transformer's work on one GPU, whose primary context other libraries share.
class HaloQueue {
 public:
  explicit HaloQueue(int device) : device_(bind_primary_context(device)), index_(device) {}
  HaloQueue(const HaloQueue&) = delete;
  HaloQueue& operator=(const HaloQueue&) = delete;

  void run_alone(const BoundCopies& bound, std::uint64_t stream) {  // for most calls: each argument costs time
    order_.run(borrow(stream), {}, {}, index_, bound.plan, bound.bases);
  }
  void run_bound(const BoundCopies& bound, std::uint64_t stream, const Handles& others, const Handles& after) {
    const std::vector<Stream*> side = borrowed(others), before = borrowed(after);
    order_.run(borrow(stream), side, before, index_, bound.plan, bound.bases);
  }
  void synchronize() {
    const GilRelease unlocked;
    order_.synchronize();
  }
  void make_wait(std::uint64_t stream) { order_.make_wait(borrow(stream)); }
  Event mark() { return order_.mark(); }
  void order_after(const HaloQueue& other) { order_.order_after(other.order_.done()); }

 private:
  Stream& borrow(std::uint64_t handle) {
    auto& stream = streams_[handle];
    if (stream == nullptr) stream = device_->borrow_stream(handle);
    return *stream;
  }
  std::vector<Stream*> borrowed(const std::vector<std::uint64_t>& handles) {
    std::vector<Stream*> streams;
    for (const auto handle : handles) streams.push_back(&borrow(handle));
    return streams;
  }

  std::shared_ptr<Device> device_;
  int index_;
  std::map<std::uint64_t, std::unique_ptr<Stream>> streams_;
  halo::WorkOrder order_;
};

// Of the sides, in the order of their numbers.
nb::list side_ends() {
  nb::list out;
  for (int side = 0; side < halo::kSides; ++side) {
    const auto [i, j] = halo::ends_of(static_cast<halo::Side>(side));
    out.append(nb::make_tuple(i, j));
  }
  return out;
}

using Place = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // tile, row, col
using Neighbour = std::tuple<std::int64_t, int, int>;                // peer, rotation, the peer's side

Place place_on_sphere(std::int64_t layout, std::int64_t rank) {
  const auto place = halo::CubedSphere(layout).place(rank);
  return {place.tile, place.row, place.col};
}

std::optional<Neighbour> neighbour_on_sphere(std::int64_t layout, std::int64_t rank, int side) {
  const auto link = halo::CubedSphere(layout).neighbour(rank, side_of(side));
  if (!link) return std::nullopt;
  return Neighbour{link->peer, link->rotation, static_cast<int>(link->peer_side)};
}

// How many cells of the halo no rank owns, before and after the block.
Pairs unowned_on_grid(std::vector<halo::Integers> sizes, std::vector<bool> periodic, std::int64_t rank,
                      const Pairs& widths) {
  const halo::Cartesian grid({std::move(sizes), std::move(periodic), halo::Corners::direct});
  return pairs_of(grid.unowned(rank, cells_of_pairs(widths)));
}

}  // namespace

void bind_halo(nb::module_& m) {
  nb::class_<CopyPlan>(m, "CopyPlan")
      .def_prop_ro("buffer_bytes", [](const CopyPlan& p) { return p.compiled->buffer_bytes; })
      .def_prop_ro("bytes", [](const CopyPlan& p) { return p.plan->bytes(); })
      .def_prop_ro("launches", [](const CopyPlan& p) { return p.plan->phases().size(); })
      .def("describe", [](const CopyPlan& p) { return p.plan->describe(); })
      .def(
          "run", [](const CopyPlan& p, const Bases& bases, unsigned threads) { run_plan(*p.plan, bases, threads); },
          nb::arg("bases"), nb::arg("threads") = 1)
      .def("__hash__", [](const CopyPlan& p) { return p.plan->hash(); })
      .def(
          "__eq__", [](const CopyPlan& a, const CopyPlan& b) { return *a.plan == *b.plan; }, nb::is_operator(),
          nb::sig("def __eq__(self, arg: object, /) -> bool"));
  nb::class_<BoundCopies>(m, "BoundCopies")
      .def(
          "run", [](const BoundCopies& b, unsigned threads) { run_plan(*b.plan, *b.bases, threads); },
          nb::arg("threads") = 1);
  nb::class_<Event>(m, "Mark").def("ready", &Event::ready);
  nb::class_<HaloQueue>(m, "HaloQueue")
      .def(nb::init<int>())
      .def("run_alone", &HaloQueue::run_alone)
      .def("run_bound", &HaloQueue::run_bound)
      .def("synchronize", &HaloQueue::synchronize)
      .def("make_wait", &HaloQueue::make_wait)
      .def("mark", &HaloQueue::mark)
      .def("order_after", &HaloQueue::order_after);
  m.def("device_of_pointer", [](std::uint64_t pointer) {  // CUDA's device index; 0 for memory that is not CUDA's
    const auto device = bind_pointer(pointer);
    return device == nullptr ? 0 : device->index();
  });
  m.def("halo_plan", &halo_plan, nb::arg("fields"), nb::arg("messages"), nb::arg("directs"), nb::arg("unpack"),
        nb::arg("adjoint") = false);
  m.def("cached_halo_plans", [] {
    nb::dict out;
    for (const auto& [key, plan] : halo::cached_plans())
      out[nb::bytes(key.data(), key.size())] = nb::cast(CopyPlan(plan));
    return out;
  });
  m.def("clear_cached_halo_plans", &halo::clear_cached_plans);
  m.def("halo_side_ends", &side_ends);
  m.def("cartesian_size", &halo::ranks_of, nb::arg("grid"));
  m.def("cartesian_coordinates", &halo::coordinates_of, nb::arg("grid"), nb::arg("rank"));
  m.def("cartesian_rank", &halo::rank_at, nb::arg("grid"), nb::arg("coordinates"));
  m.def("cartesian_unowned", &unowned_on_grid, nb::arg("sizes"), nb::arg("periodic"), nb::arg("rank"),
        nb::arg("widths"));
  m.def("cubed_sphere_size", [](std::int64_t layout) { return halo::CubedSphere(layout).size(); }, nb::arg("layout"));
  m.def("cubed_sphere_place", &place_on_sphere, nb::arg("layout"), nb::arg("rank"));
  m.def("cubed_sphere_neighbour", &neighbour_on_sphere, nb::arg("layout"), nb::arg("rank"), nb::arg("side"));
}

}  // namespace damacy::python
