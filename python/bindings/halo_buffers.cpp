// The idle buffers of Python's pool. Decides nothing.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "damacy/halo/idle_buffers.h"

namespace damacy::python {
namespace {

// Each buffer is of its own kind: users choose by lists of their own. Devices are indices; none for the host.
class PythonIdleBuffers {
 public:
  void add(nb::object buffer, std::optional<int> device, std::size_t size) {
    const PyObject* const own = buffer.ptr();
    idle_.add({own, device, size, std::move(buffer)});
  }
  void remove(nb::handle buffer) { (void)idle_.take(buffer.ptr()); }
  nb::list drop(std::optional<int> device, std::size_t most) { return list_of(idle_.drop(device, most)); }
  nb::list drop_oldest() { return list_of(idle_.drop_oldest()); }
  void clear() { const Idle old = std::exchange(idle_, {}); }  // destructors of arrays may call Python code
  std::size_t bytes(std::optional<int> device) const { return idle_.bytes(device); }

 private:
  using Idle = halo::IdleBuffers<const PyObject*, std::optional<int>, nb::object>;

  static nb::list list_of(const Idle::Entries& entries) {
    nb::list out;
    for (const auto& entry : entries) out.append(entry.buffer);
    return out;
  }

  Idle idle_;
};

}  // namespace

void bind_halo_buffers(nb::module_& m) {
  nb::class_<PythonIdleBuffers>(m, "IdleBuffers")
      .def(nb::init<>())
      .def("add", &PythonIdleBuffers::add, nb::arg("buffer"), nb::arg("device").none(), nb::arg("size"))
      .def("remove", &PythonIdleBuffers::remove, nb::arg("buffer"))
      .def("drop", &PythonIdleBuffers::drop, nb::arg("device").none(), nb::arg("most"))
      .def("drop_oldest", &PythonIdleBuffers::drop_oldest)
      .def("clear", &PythonIdleBuffers::clear)
      .def("__getitem__", &PythonIdleBuffers::bytes, nb::arg("device").none());
}

}  // namespace damacy::python
