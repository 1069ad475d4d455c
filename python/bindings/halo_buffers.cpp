// The pool of Python's message buffers: lists of idle buffers by key, which users may change at any time. The GIL
// guards it. Decides nothing.
#include <map>
#include <utility>

#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "damacy/halo/idle_buffers.h"

namespace damacy::python {
namespace {

class PythonPool {
 public:
  // `cache`: a dict that maps keys to lists of idle buffers, the newest last.
  explicit PythonPool(nb::dict cache) : cache_(std::move(cache)) {}

  // Lends a buffer of this key: the newest idle one; None: the caller makes one.
  nb::object take(nb::handle key) {
    nb::list idle = idle_of(key);
    nb::object buffer = nb::none();
    if (idle.size() > 0) {
      buffer = idle.attr("pop")();
      (void)idle_.take(buffer.ptr());
    }
    lent_[key] = lent(key) + 1;
    bound_keys();
    return buffer;
  }

  // A loan ended without a return.
  void end_loan(nb::handle key) {
    if (const auto others = lent(key) - 1; others > 0) {
      lent_[key] = others;
      return;
    }
    lent_.attr("pop")(key, nb::none());
    drop_if_unused(key);
  }

  // The newest idle one of its key from now on. The oldest ones of the device are dropped, so that at most `most` bytes
  // are idle there. `device`: an index; none for the host.
  void give(nb::object buffer, nb::handle key, std::optional<int> device, std::size_t bytes, std::size_t most) {
    nb::list idle = idle_of(key);
    for (const nb::handle one : idle)
      if (one.is(buffer)) return;
    idle.append(buffer);
    const PyObject* const own = buffer.ptr();
    (void)idle_.take(own);  // the user may have removed it from its list
    idle_.add({own, device, bytes, std::move(buffer)});
    take_out(idle_.drop(device, most));
    bound_keys();
  }

  void clear() { const Idle old = std::exchange(idle_, {}); }  // destructors of arrays may call Python code
  std::size_t idle_bytes(std::optional<int> device) const { return idle_.bytes(device); }
  bool is_lent(nb::handle key) const { return lent_.contains(key); }

  std::size_t most_keys = 4096;  // above that, keys without buffers are removed

 private:
  using Idle = halo::IdleBuffers<const PyObject*, std::optional<int>, nb::object>;

  nb::list idle_of(nb::handle key) { return nb::cast<nb::list>(cache_.attr("setdefault")(key, nb::list())); }
  std::int64_t lent(nb::handle key) const {
    return lent_.contains(key) ? nb::cast<std::int64_t>(nb::object(lent_[key])) : 0;
  }
  bool is_unused(nb::handle key) const {
    return !is_lent(key) && cache_.contains(key) && nb::len(nb::object(cache_[key])) == 0;
  }

  // From the lists of their keys, if users left them there.
  void take_out(const Idle::Entries& dropped) {
    for (const auto& entry : dropped) {
      const nb::object key = entry.buffer.attr("_key");
      if (!cache_.contains(key)) continue;
      const nb::object idle(cache_[key]);
      for (std::size_t i = nb::len(idle); i-- > 0;)
        if (const nb::int_ at(i); nb::object(idle[at]).is(entry.buffer)) nb::del(idle[at]);
      drop_if_unused(key);
    }
  }

  void drop_if_unused(nb::handle key) {
    if (cache_.size() > most_keys && is_unused(key)) cache_.attr("pop")(key, nb::none());
  }

  // After a key may have been added.
  void bound_keys() {
    if (cache_.size() == most_keys + 1)  // above that, keys are removed as soon as they are unused
      for (const nb::handle key : cache_.keys())
        if (is_unused(key)) cache_.attr("pop")(key, nb::none());
    while (cache_.size() > 2 * most_keys) {  // so that keys stay bounded
      const Idle::Entries oldest = idle_.drop_oldest();
      if (oldest.empty()) return;
      take_out(oldest);
    }
  }

  const nb::dict cache_;
  nb::dict lent_;  // counts by key
  Idle idle_;
};

}  // namespace

void bind_halo_buffers(nb::module_& m) {
  nb::class_<PythonPool>(m, "HaloBufferPool")
      .def(nb::init<nb::dict>(), nb::arg("cache"))
      .def(
          "take", [](PythonPool& p, nb::object key) { return nb::borrow<nb::any>(p.take(key)); }, nb::arg("key"))
      .def(
          "end_loan", [](PythonPool& p, nb::object key) { p.end_loan(key); }, nb::arg("key"))
      .def(
          "give",
          [](PythonPool& p, nb::object buffer, nb::object key, std::optional<int> device, std::size_t size,
             std::size_t most) { p.give(std::move(buffer), key, device, size, most); },
          nb::arg("buffer"), nb::arg("key"), nb::arg("device").none(), nb::arg("size"), nb::arg("most"))
      .def("clear", &PythonPool::clear)
      .def("idle_bytes", &PythonPool::idle_bytes, nb::arg("device").none())
      .def(
          "is_lent", [](const PythonPool& p, nb::object key) { return p.is_lent(key); }, nb::arg("key"))
      .def_rw("most_keys", &PythonPool::most_keys);
}

}  // namespace damacy::python
