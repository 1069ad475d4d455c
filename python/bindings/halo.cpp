// Copy plans and halo wires for Python: tuples of integers in, plans out. Decides nothing.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "damacy/copy/copy_plan.h"
#include "damacy/halo/wire.h"

namespace damacy::python {
namespace {

using Bases = std::vector<std::uint64_t>;

Dims dims_of(nb::handle sequence) {
  Dims dims;
  for (const nb::handle item : sequence) {
    if (dims.size() == kMaxRank) throw Error(Status::rank, text("more than ", kMaxRank, " axes"));
    dims.push_back(nb::cast<std::int64_t>(item));
  }
  return dims;
}

// (dtype, shape, strides, i_axis, j_axis, rotation, start, stop)
halo::Spec spec_of(nb::handle tuple) {
  halo::Spec spec;
  spec.field.dtype = static_cast<Dtype>(nb::cast<int>(tuple[0]));
  spec.field.shape = dims_of(tuple[1]);
  spec.field.strides = dims_of(tuple[2]);
  spec.field.i_axis = nb::cast<int>(tuple[3]);
  spec.field.j_axis = nb::cast<int>(tuple[4]);
  spec.rotation = nb::cast<int>(tuple[5]);
  spec.box = {dims_of(tuple[6]), dims_of(tuple[7])};
  return spec;
}

std::vector<halo::Spec> specs_of(nb::handle sequence) {
  std::vector<halo::Spec> specs;
  for (const nb::handle item : sequence) specs.push_back(spec_of(item));
  return specs;
}

// A plan as Python holds it.
struct CopyPlan {
  std::shared_ptr<const copy::Plan> plan;
  std::vector<std::int64_t> buffer_elements;
};

// Messages are (x specs, y specs or None, native).
CopyPlan compile_halo(nb::sequence messages, bool unpack, bool adjoint) {
  std::vector<halo::Message> parsed;
  for (const nb::handle item : messages) {
    halo::Message message;
    message.x = specs_of(item[0]);
    message.is_vector = !nb::object(item[1]).is_none();
    if (message.is_vector) message.y = specs_of(item[1]);
    message.wire = nb::cast<bool>(item[2]) ? halo::Wire::native : halo::Wire::ndsl;
    parsed.push_back(std::move(message));
  }
  auto compiled = halo::compile(parsed, unpack ? halo::Direction::unpack : halo::Direction::pack, adjoint);
  return {std::move(compiled.plan), std::move(compiled.buffer_elements)};
}

// Slots are (dtype, shape, strides, writable); copies (source slot, offset, strides, destination slot, offset, strides,
// extents, negate, add).
CopyPlan compile_copies(nb::sequence slots, nb::sequence copies) {
  std::vector<copy::Slot> parsed_slots;
  for (const nb::handle item : slots)
    parsed_slots.push_back(
        {static_cast<Dtype>(nb::cast<int>(item[0])), dims_of(item[1]), dims_of(item[2]), nb::cast<bool>(item[3])});
  std::vector<copy::Copy> parsed;
  for (const nb::handle item : copies) {
    copy::Copy copy;
    copy.src = {nb::cast<std::uint32_t>(item[0]), nb::cast<std::int64_t>(item[1]), dims_of(item[2])};
    copy.dst = {nb::cast<std::uint32_t>(item[3]), nb::cast<std::int64_t>(item[4]), dims_of(item[5])};
    copy.extents = dims_of(item[6]);
    copy.op = {nb::cast<bool>(item[7]), nb::cast<bool>(item[8])};
    parsed.push_back(std::move(copy));
  }
  return {copy::compile(std::move(parsed_slots), std::move(parsed)), {}};
}

void run_plan(const CopyPlan& plan, const Bases& bases, unsigned threads) {
  const Unlocked unlocked;
  copy::run(*plan.plan, bases, threads);
}

void launch_plan(const CopyPlan& plan, const Bases& bases, int device, std::uint64_t stream) {
  const int error = copy::launch_copies(*plan.plan, bases, device, stream);
  if (error != 0) throw Error(Status::cuda, text("a launch of copies: CUDA error ", error), "cuda");
}

// A plan with the addresses it runs on.
struct BoundCopies {
  CopyPlan plan;
  Bases bases;
};

}  // namespace

void bind_halo(nb::module_& m) {
  nb::class_<CopyPlan>(m, "CopyPlan")
      .def_prop_ro("buffer_elements", [](const CopyPlan& p) { return p.buffer_elements; })
      .def_prop_ro("bytes", [](const CopyPlan& p) { return p.plan->bytes(); })
      .def_prop_ro("launches", [](const CopyPlan& p) { return p.plan->phases().size(); })
      .def_prop_ro("slot_count", [](const CopyPlan& p) { return p.plan->slots().size(); })
      .def("describe", [](const CopyPlan& p) { return p.plan->describe(); })
      .def("check_overlaps", [](const CopyPlan& p, const Bases& bases) { copy::check_overlaps(*p.plan, bases); })
      .def("run", &run_plan, nb::arg("bases"), nb::arg("threads") = 1)
      .def("launch", &launch_plan, nb::arg("bases"), nb::arg("device"), nb::arg("stream"))
      .def("bind", [](const CopyPlan& p, Bases bases) { return BoundCopies{p, std::move(bases)}; })
      .def("__hash__", [](const CopyPlan& p) { return p.plan->hash(); })
      .def("__eq__", [](const CopyPlan& a, const CopyPlan& b) { return *a.plan == *b.plan; }, nb::is_operator());
  nb::class_<BoundCopies>(m, "BoundCopies")
      .def(
          "run", [](const BoundCopies& b, unsigned threads) { run_plan(b.plan, b.bases, threads); },
          nb::arg("threads") = 1)
      .def("launch", [](const BoundCopies& b, int device, std::uint64_t stream) {
        launch_plan(b.plan, b.bases, device, stream);
      });
  m.def("compile_halo", &compile_halo, nb::arg("messages"), nb::arg("unpack"), nb::arg("adjoint") = false);
  m.def("compile_copies", &compile_copies, nb::arg("slots"), nb::arg("copies"));
}

}  // namespace damacy::python
