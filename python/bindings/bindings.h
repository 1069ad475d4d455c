// Declarations that the parts of the extension share. Each bind_* adds its part to the module.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include <nanobind/nanobind.h>

#include "damacy/batch/batch.h"
#include "damacy/batch/sample.h"
#include "damacy/core/error.h"
#include "damacy/store/storage_call.h"
#include "sample_objects.h"

namespace damacy::python {

namespace nb = nanobind;

// Releases the GIL in a scope. If the interpreter ends meanwhile, the thread stops here forever: taking the GIL would
// unwind the thread through C++ frames that do not expect it.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// Calls `work`, which may block, without the GIL. `work` must not use Python objects.
template <class Work>
auto without_gil(Work work) {
  const GilRelease unlocked;
  return work();
}

// Acquires the GIL in a scope. When the interpreter ends, a thread other than the main one stops here forever.
// (nanobind's own guard is noexcept: a thread that the interpreter unwinds there ends the process.)
class GilAcquire {
 public:
  GilAcquire();
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

// The object `name` of a module of the package. It is cached, because nothing can be imported while the interpreter
// ends.
nb::object python_part(const std::string& module, const std::string& name);

// Guards a scope that calls Python code from C++. If the interpreter ends meanwhile and unwinds the thread, the thread
// stops here forever: some C++ frames above must not catch that exception, and others must not let it pass.
class NoUnwind {
 public:
  NoUnwind() = default;
  ~NoUnwind();
  NoUnwind(const NoUnwind&) = delete;
  NoUnwind& operator=(const NoUnwind&) = delete;
};

// On the main thread a function that runs pending signal handlers and throws what they raise; on other threads empty.
std::function<void()> signal_checker();

// A tuple of numbers or texts.
template <class Values>
nb::tuple tuple_of(const Values& values) {
  nb::list list;
  for (const auto& value : values) list.append(value);
  return nb::tuple(list);
}

// Calls `work`, which reads storage below `uri`, without the GIL. Stops waiting for it if a signal handler raises.
template <class Work>
auto call_without_gil(const std::string& uri, Work work) {
  const StorageWaiting waiting{signal_checker()};
  const GilRelease unlocked;
  try {
    return storage_result(std::move(work), waiting);
  } catch (Error& error) {
    throw error.at_uri(uri);
  }
}

void bind_errors(nb::module_& m);
void bind_cufile(nb::module_& m);
void bind_pipeline(nb::module_& m);
void bind_log(nb::module_& m);
void bind_halo(nb::module_& m);
void bind_halo_arrays(nb::module_& m);
void bind_halo_buffers(nb::module_& m);
void bind_halo_layouts(nb::module_& m);
void bind_halo_protocols(nb::module_& m);
void bind_halo_specs(nb::module_& m);
void bind_halo_exchange(nb::module_& m);
void bind_halo_steps(nb::module_& m);
void bind_halo_topology(nb::module_& m);
void bind_halo_messages(nb::module_& m);
void bind_halo_nccl(nb::module_& m);
void bind_halo_queue(nb::module_& m);
void bind_halo_transformer(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_opening(nb::module_& m);
void bind_memory_blocks(nb::module_& m);
void bind_memory_plan(nb::module_& m);
void bind_mounted_stores(nb::module_& m);
void bind_remote_files(nb::module_& m);
void bind_selection_reads(nb::module_& m);
void stop_device_reads() noexcept;  // after the readers of selections

// The Python exception object for an Error, made by damacy._core.errors.make_error, which has the table of classes.
nb::object exception_of(const Error& error);
// Makes the current exception; if a signal handler raises meanwhile, that is it.
template <class Make>
void raise_made_by(Make make) {
  try {
    const nb::object exception = make();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  } catch (nb::python_error& interrupt) {
    interrupt.restore();
  }
}

// The Python objects that native code holds for one pipeline, for the cycle collector. The GIL guards them, not a
// mutex, so that they do not change during a collection.
class HeldObjects {
 public:
  int visit(visitproc visitor, void* arg) const {
    for (PyObject* object : objects_)
      if (const int stop = visitor(object, arg)) return stop;
    return 0;
  }

 private:
  friend class HeldObject;
  std::unordered_multiset<PyObject*> objects_;
};

// Owns one object, and takes the GIL to release it. Leaks the object if the interpreter has ended.
class HeldObject {
 public:
  HeldObject(std::shared_ptr<HeldObjects> among, nb::object object);
  ~HeldObject();
  HeldObject(const HeldObject&) = delete;
  HeldObject& operator=(const HeldObject&) = delete;
  nb::handle get() const noexcept { return object_; }

 private:
  std::shared_ptr<HeldObjects> among_;
  nb::object object_;
};

// Carries an exception of a source of samples through native code.
struct SourceFailure : std::exception {
  explicit SourceFailure(std::shared_ptr<const HeldObject> raised_) : raised(std::move(raised_)) {}
  std::shared_ptr<const HeldObject> raised;
};

// A source that reads a Python iterable, with the GIL held and only during calls that pull. `samples` carries items.
std::shared_ptr<SampleSource> source_of(nb::object iterable, const std::shared_ptr<HeldObjects>& among,
                                        const std::shared_ptr<SampleObjects>& samples);

// Implements __dlpack__ of an array of a batch: checks the arguments and returns a capsule.
nb::object dlpack_capsule(const Batch& batch, std::optional<std::string_view> array, nb::object stream,
                          nb::object max_version, nb::object dl_device, nb::object copy);

}  // namespace damacy::python
