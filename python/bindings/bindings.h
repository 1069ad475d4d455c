// What the pieces of the extension share. Each bind_* adds its part to the module.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "damacy/core/error.h"
#include "damacy/pipeline/batch.h"
#include "damacy/pipeline/sample.h"

namespace damacy::python {

namespace nb = nanobind;

// Drops the GIL for a while. When the interpreter ends meanwhile, the thread stops here for ever: taking the GIL then
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

void bind_errors(nb::module_& m);
void bind_pipeline(nb::module_& m);
void bind_log(nb::module_& m);
void bind_halo(nb::module_& m);
void bind_plan(nb::module_& m);

// A Python exception object for one of ours: made by damacy._errors.make_error, the one table of classes.
nb::object exception_of(const Error& error);

// Reads Python iterables with the GIL held, and only inside the calls that pull.
std::shared_ptr<SampleSource> source_of(nb::object iterable);

// __dlpack__ of a batch: checks the arguments of pipeline.md 8.4, gives a capsule.
nb::object dlpack_capsule(const Batch& batch, nb::object stream, nb::object max_version, nb::object dl_device,
                          nb::object copy);

}  // namespace damacy::python
