// Layouts that are as usual are read here; damacy.halo._arrays finds out the others.
#include "halo_arrays.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/vector.h>

#include "damacy/core/formatted.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/spec.h"
#include "device_interface.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

// A quantity of this call. Exchanges have the same few quantities for each side, so each is looked at once.
struct Known {
  nb::object quantity;  // kept: another one could get its address
  nb::object owner;     // of its memory
  std::uint64_t address = 0;
  Dims strides;
  bool is_writable = true;
  nb::object device;  // an index, or None
  nb::object stream;  // that the array names, or None
  halo::ArrayFacts facts;
};

std::vector<std::string> texts_of(nb::handle names) {
  std::vector<std::string> texts;
  for (const nb::handle name : names) texts.emplace_back(nb::str(name).c_str());
  return texts;
}

// `said`: (dims or None, layout); a layout is as in damacy.halo._arrays.
Known known_of(nb::handle quantity, nb::handle said) {
  const nb::object dims(said[0]), layout(said[1]);
  Known known{nb::borrow(quantity),
              nb::object(layout[7]),
              nb::cast<std::uint64_t>(nb::object(layout[0])),
              dims_of(nb::object(layout[2])),
              nb::cast<bool>(nb::object(layout[5])),
              nb::object(layout[4]),
              nb::object(layout[6]),
              {std::nullopt, dims_of(nb::object(layout[1])), dtype_of(nb::object(layout[3]))}};
  if (!dims.is_none()) known.facts.dims = texts_of(dims);
  return known;
}

// Of an array whose layout is as usual.
std::optional<Known> known_array(nb::handle array) {
  const auto layout = array_layout(array);
  if (!layout) return std::nullopt;
  Known known{nb::borrow(array),
              nb::borrow(array),
              layout->address,
              layout->strides,
              layout->is_writable,
              layout->device ? nb::object(nb::int_(*layout->device)) : nb::none(),
              layout->stream ? nb::object(nb::int_(*layout->stream)) : nb::none(),
              {std::nullopt, layout->shape, layout->dtype}};
  const nb::object dims = nb::getattr(array, "dims", nb::none());
  if (!dims.is_none()) known.facts.dims = texts_of(dims);
  return known;
}

// The distinct quantities of a call. `look` gives (dims or None, layout) of a quantity.
class Quantities {
 public:
  explicit Quantities(nb::callable look) : look_(std::move(look)) {}

  const Known& at(nb::handle quantity) {
    const auto found =
        std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.quantity.ptr() == quantity.ptr(); });
    if (found != known_.end()) return *found;
    auto quick = known_array(quantity);
    return known_.emplace_back(quick ? std::move(*quick) : known_of(quantity, look_(quantity)));
  }

  // All that were asked for.
  PythonArrays arrays(halo::GatheredArrays gathered) const {
    PythonArrays out;
    out.gathered = std::move(gathered);
    nb::list devices;
    for (const Known& one : known_) {
      out.held.append(one.owner);
      const nb::str device(one.device);
      if (!nb::cast<bool>(devices.attr("__contains__")(device))) devices.append(device);
      if (one.stream.is_none())
        out.unnamed[one.owner.type()] = one.owner;
      else
        out.named[nb::make_tuple(one.owner.type(), one.stream)] = one.owner;
    }
    devices.attr("sort")();
    if (nb::len(devices) > 1)
      throw Error(Status::inval,
                  formatted("expected arrays of one device (got devices {})", nb::repr(devices).c_str()));
    if (!known_.empty()) out.device = known_.front().device;
    return out;
  }

 private:
  nb::callable look_;
  std::vector<Known> known_;
};

// Throws Error(inval) for arrays of several devices.
PythonArrays joined(const std::vector<const PythonArrays*>& parts) {
  PythonArrays out;
  for (const PythonArrays* part : parts) {
    if (!part->device.equal(parts[0]->device))
      throw Error(Status::inval, "expected arrays of one device: the arrays of this exchange are on several");
    out.device = part->device;
    out.held.extend(part->held);
    out.named.update(part->named);
    out.unnamed.update(part->unnamed);
  }
  return out;
}

PythonArrays gather(const halo::TransformerPlans& plans, nb::object x, nb::object y, nb::callable look) {
  const halo::TransformerSpecs& specs = plans.specs();
  halo::check_counts(specs, nb::len(x), y.is_none() ? std::nullopt : std::optional(nb::len(y)));
  halo::GatheredArrays arrays;
  Quantities quantities(std::move(look));
  std::size_t index = 0;
  const auto add = [&](nb::handle some) {
    for (const nb::handle quantity : some) {
      const Known& known = quantities.at(quantity);
      halo::check_array(specs, index++, known.facts);
      halo::add_array(arrays, specs, known.address, known.strides, known.is_writable);
    }
  };
  add(x);
  if (!y.is_none()) add(y);
  return quantities.arrays(std::move(arrays));
}

// `device`: of the fields; None: the host.
PythonArrays gather_exchange(const halo::ExchangePlan& plan, nb::sequence some, nb::handle device, nb::callable look) {
  plan.check_count(nb::len(some));
  halo::GatheredArrays arrays;
  Quantities quantities(std::move(look));
  for (const nb::handle quantity : some) {
    const std::size_t n = arrays.addresses.size();
    const Known& known = quantities.at(quantity);
    plan.check_array(n, known.facts.dtype, known.facts.shape, known.strides);
    if (!known.device.equal(device))
      throw Error(Status::inval, formatted("array {} is on device {}, expected {} (None: the host)", n,
                                           nb::str(known.device).c_str(), nb::str(device).c_str()));
    if (!known.is_writable) throw Error(Status::inval, formatted("array {} is read-only", n));
    arrays.addresses.push_back(known.address);
  }
  return quantities.arrays(std::move(arrays));
}

PythonArrays joined_list(nb::sequence parts) {
  std::vector<const PythonArrays*> all;
  for (const nb::handle part : parts) all.push_back(&nb::cast<const PythonArrays&>(part));
  return joined(all);
}

}  // namespace

void bind_halo_arrays(nb::module_& m) {
  nb::class_<PythonArrays>(m, "HaloArrays")
      .def_ro("held", &PythonArrays::held)
      .def_ro("device", &PythonArrays::device)
      .def_prop_ro("named", [](const PythonArrays& a) { return a.named.values(); })
      .def_prop_ro("unnamed", [](const PythonArrays& a) { return a.unnamed.values(); })
      .def_prop_ro("addresses", [](const PythonArrays& a) { return a.gathered.addresses; })
      .def_prop_ro("is_writable", [](const PythonArrays& a) { return a.gathered.read_only.empty(); })
      .def("check_writable", [](const PythonArrays& a) { halo::check_writable(a.gathered); });
  m.def("gather_quantities", &gather, nb::arg("plans"), nb::arg("x"), nb::arg("y").none(), nb::arg("look"));
  m.def("gather_fields", &gather_exchange, nb::arg("plan"), nb::arg("arrays"), nb::arg("device").none(),
        nb::arg("look"));
  m.def("joined_arrays", &joined_list, nb::arg("parts"));
}

}  // namespace damacy::python
