#include "python_gate.h"

#include "damacy/core/fork.h"

namespace damacy::python {

bool Gate::enter() {
  const Lock lock(mutex_);
  if (closed_) return false;
  ++inside_;
  return true;
}

void Gate::leave() {
  const Lock lock(mutex_);
  if (--inside_ == 0) left_.notify_all();
}

void Gate::close() {
  Lock lock(mutex_);
  closed_ = true;
  left_.wait(lock, [this]() DAMACY_REQUIRES(mutex_) { return inside_ == 0; });
}

bool Gate::is_closed() {
  const Lock lock(mutex_);
  return closed_;
}

void Gate::drop_later(PyObject* object) {
  const Lock lock(mutex_);
  dropped_.push_back(object);
}

void Gate::drop_now() {
  std::vector<PyObject*> dropped;
  {
    const Lock lock(mutex_);
    dropped.swap(dropped_);
  }
  for (PyObject* const object : dropped) Py_DECREF(object);
}

Gate& gate() {
  return one_per_process<Gate>();
}

std::shared_ptr<PyObject> shared_object(nb::handle object) {
  return {Py_NewRef(object.ptr()), [](PyObject* dropped) { gate().drop_later(dropped); }};
}

Error python_ends() {
  return Error(Status::io, "the store was not asked: the Python interpreter ends", "io");
}

nb::object str_of(std::string_view bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

}  // namespace damacy::python
