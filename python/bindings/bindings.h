// What the pieces of the extension share. Each bind_* adds its part to the module.
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

// Releases the GIL in a scope. If the interpreter ends meanwhile, the thread stops here forever: taking the GIL then
// would unwind it through C++ frames that do not expect it.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

// What `work` gives, which may block and touches no Python object.
template <class Work>
auto without_gil(Work work) {
  const Unlocked unlocked;
  return work();
}

// Acquires the GIL in a scope. When the interpreter ends, a thread other than the main one stops here forever.
// (nanobind's own guard is noexcept: a thread that the interpreter unwinds there ends the process.)
class HeldGil {
 public:
  HeldGil();
  ~HeldGil() { PyGILState_Release(state_); }
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// What a module of the package has by that name. It is kept: while the interpreter ends nothing can be imported any
// more.
nb::object python_part(const std::string& module, const std::string& name);

// Put around Python code that runs below our frames. If the interpreter ends meanwhile and unwinds the thread, the
// thread stops here forever: some of our frames must not catch a foreign exception, and others must not let it out.
class Unleavable {
 public:
  Unleavable() = default;
  ~Unleavable();
  Unleavable(const Unleavable&) = delete;
  Unleavable& operator=(const Unleavable&) = delete;
};

// On the main thread: a function that lets signal handlers run, and throws what they raise. Elsewhere empty.
std::function<void()> signal_checker();

// Of numbers, or of texts.
template <class Values>
nb::tuple tuple_of(const Values& values) {
  nb::list list;
  for (const auto& value : values) list.append(value);
  return nb::tuple(list);
}

// What `work` finds out from storage below `uri`; without the GIL, and until a signal handler raises.
template <class Work>
auto ask_without_gil(const std::string& uri, Work work) {
  const StorageWaiting waiting{signal_checker()};
  const Unlocked unlocked;
  try {
    return ask_storage(std::move(work), waiting);
  } catch (Error& error) {
    throw error.at_uri(uri);
  }
}

void bind_errors(nb::module_& m);
void bind_cufile(nb::module_& m);
void bind_pipeline(nb::module_& m);
void bind_log(nb::module_& m);
void bind_halo(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_memory_blocks(nb::module_& m);
void bind_selection_reads(nb::module_& m);

// A Python exception object for one of ours: made by damacy._core.errors.make_error, the one table of classes.
nb::object exception_of(const Error& error);

// The Python objects that native code holds for one pipeline: what the cycle collector follows. The GIL guards it, not
// a lock, so that two looks of one collection see the same.
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

// Owns one object, and takes the GIL to let go of it. Leaks it when there is no interpreter any more.
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

// What a source of samples raised, on its way through native code.
struct SourceFailure : std::exception {
  explicit SourceFailure(std::shared_ptr<const HeldObject> raised_) : raised(std::move(raised_)) {}
  std::shared_ptr<const HeldObject> raised;
};

// Reads Python iterables with the GIL held, and only inside the calls that pull. What it reads is carried by `samples`.
std::shared_ptr<SampleSource> source_of(nb::object iterable, const std::shared_ptr<HeldObjects>& among,
                                        const std::shared_ptr<SampleObjects>& samples);

// __dlpack__ of a batch: checks the arguments, gives a capsule.
nb::object dlpack_capsule(const Batch& batch, nb::object stream, nb::object max_version, nb::object dl_device,
                          nb::object copy);

}  // namespace damacy::python
