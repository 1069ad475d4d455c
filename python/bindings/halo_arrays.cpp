// Arrays whose layouts are as usual are read here; damacy.halo._arrays finds the arrays of other quantities.
#include "halo_arrays.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "damacy/core/formatted.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/spec.h"
#include "halo_protocols.h"
#include "halo_values.h"

namespace damacy::python {
namespace {

nb::object device_object(std::optional<int> device) {
  return device ? nb::object(nb::int_(*device)) : nb::none();
}

// A quantity of this call. Exchanges have the same few quantities for each side, so each is looked at once.
struct Known {
  nb::object quantity;  // kept: another one could get its address
  nb::object owner;     // of its memory
  ArrayLayout layout;
  halo::ArrayFacts facts;
};

std::vector<std::string> texts_of(nb::handle names) {
  std::vector<std::string> texts;
  for (const nb::handle name : names) texts.emplace_back(nb::str(name).c_str());
  return texts;
}

// `said`: (dims or None, layout).
Known known_of(nb::handle quantity, nb::handle said) {
  const nb::object dims(said[0]);
  const auto& layout = nb::cast<const PythonLayout&>(nb::object(said[1]));
  Known known{nb::borrow(quantity), layout.owner, layout.at, {}};
  if (!dims.is_none()) known.facts.dims = texts_of(dims);
  return known;
}

// Of an array whose layout is as usual.
std::optional<Known> known_array(nb::handle array) {
  const auto layout = array_layout(array);
  if (!layout) return std::nullopt;
  Known known{nb::borrow(array), nb::borrow(array), *layout, {}};
  if (is_plain_array(array)) return known;
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
    Known& known = known_.emplace_back(quick ? std::move(*quick) : known_of(quantity, look_(quantity)));
    known.facts.shape = known.layout.shape;
    known.facts.dtype = known.layout.dtype;
    return known;
  }

  std::size_t count() const { return known_.size(); }

  // All that were asked for.
  PythonArrays arrays(halo::GatheredArrays gathered) const {
    PythonArrays out;
    out.gathered = std::move(gathered);
    for (const Known& one : known_) {
      out.held.append(one.owner);
      if (!one.layout.stream)
        out.unnamed[one.owner.type()] = one.owner;
      else
        out.named[nb::make_tuple(one.owner.type(), *one.layout.stream)] = one.owner;
      if (one.layout.device != known_.front().layout.device) refuse_devices();
    }
    if (!known_.empty()) out.device = known_.front().layout.device;
    return out;
  }

 private:
  [[noreturn]] void refuse_devices() const {
    nb::list devices;
    for (const Known& one : known_) {
      const nb::str device(device_object(one.layout.device));
      if (!nb::cast<bool>(devices.attr("__contains__")(device))) devices.append(device);
    }
    devices.attr("sort")();
    throw Error(Status::inval, formatted("expected arrays of one device (got devices {})", nb::repr(devices).c_str()));
  }

  nb::callable look_;
  std::vector<Known> known_;
};

// `device`: of the fields; none: the host.
PythonArrays gathered_fields(const halo::ExchangePlan& plan, nb::sequence some, std::optional<int> device,
                             nb::callable look) {
  plan.check_count(nb::len(some));
  halo::GatheredArrays arrays;
  Quantities quantities(std::move(look));
  for (const nb::handle quantity : some) {
    const std::size_t n = arrays.addresses.size();
    const ArrayLayout layout = quantities.at(quantity).layout;
    plan.check_array(n, layout.dtype, layout.shape, layout.strides);
    if (layout.device != device)
      throw Error(Status::inval,
                  formatted("array {} is on device {}, expected {} (None: the host)", n,
                            nb::str(device_object(layout.device)).c_str(), nb::str(device_object(device)).c_str()));
    if (!layout.is_writable) throw Error(Status::inval, formatted("array {} is read-only", n));
    arrays.addresses.push_back(layout.address);
  }
  return quantities.arrays(std::move(arrays));
}

}  // namespace

PythonArrays gathered_quantities(const halo::TransformerPlans& plans, nb::handle x, nb::handle y, nb::callable look) {
  const halo::TransformerSpecs& specs = plans.specs();
  halo::check_counts(specs, nb::len(x), y.is_none() ? std::nullopt : std::optional(nb::len(y)));
  halo::GatheredArrays arrays;
  Quantities quantities(std::move(look));
  std::vector<PlainArray> plain;
  bool are_plain = true;
  const auto add = [&](nb::handle some) {
    for (const nb::handle quantity : some) {
      const std::size_t index = arrays.addresses.size(), before = quantities.count();
      const Known& known = quantities.at(quantity);
      if (quantities.count() > before && (are_plain = are_plain && is_plain_array(quantity)))
        plain.push_back({index, reinterpret_cast<PyObject*>(Py_TYPE(quantity.ptr())), known.layout});
      halo::check_array(specs, index, known.facts);
      halo::add_array(arrays, specs, known.layout.address, known.layout.strides, known.layout.is_writable);
    }
  };
  add(x);
  if (!y.is_none()) add(y);
  PythonArrays out = quantities.arrays(std::move(arrays));
  if (are_plain) out.plain = std::move(plain);
  return out;
}

PythonArrays joined(const std::vector<PythonArrays>& parts) {
  PythonArrays out;
  for (const PythonArrays& part : parts) {
    if (part.device != parts[0].device)
      throw Error(Status::inval, "expected arrays of one device: the arrays of this exchange are on several");
    out.device = part.device;
    out.held.extend(part.held);
    out.named.update(part.named);
    out.unnamed.update(part.unnamed);
  }
  return out;
}

void bind_halo_arrays(nb::module_& m) {
  nb::class_<PythonArrays>(m, "HaloArrays")
      .def_ro("held", &PythonArrays::held)
      .def_ro("device", &PythonArrays::device)
      .def_prop_ro("named", [](const PythonArrays& a) { return a.named.values(); })
      .def_prop_ro("unnamed", [](const PythonArrays& a) { return a.unnamed.values(); })
      .def_prop_ro("addresses", [](const PythonArrays& a) { return a.gathered.addresses; })
      .def_prop_ro("is_writable", [](const PythonArrays& a) { return a.gathered.read_only.empty(); });
  m.def("gather_fields", &gathered_fields, nb::arg("plan"), nb::arg("arrays"), nb::arg("device").none(),
        nb::arg("look"));
}

}  // namespace damacy::python
