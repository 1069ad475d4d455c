// Pipeline and Batch for damacy._pipeline.pipeline. Waits and native work release the GIL.
#include "damacy/pipeline/pipeline.h"
#include "damacy/pipeline/environment.h"

#include <cmath>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include "bindings.h"
#include "config_fields.h"
#include "damacy/batch/fields.h"
#include "damacy/device/host_device.h"

namespace damacy::python {
namespace {

// Whether this is the main thread of the process, also in a child that another thread forked. The main thread runs
// signal handlers and ends the interpreter.
bool on_main_thread() {
  return ::gettid() == ::getpid();
}

// Runs pending signal handlers while a call waits, and throws what they raise. Only the main thread runs them.
void run_signal_handlers() {
  if (!on_main_thread() || !Py_IsInitialized()) return;
  const GilAcquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// The function is public since Python 3.13 and has an underscore before. The stable ABI of 3.12 has neither.
bool interpreter_ends() {
  using Function = int (*)();
  static const auto is_finalizing = [] {
    void* const found = ::dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    return reinterpret_cast<Function>(found != nullptr ? found : ::dlsym(RTLD_DEFAULT, "_Py_IsFinalizing"));
  }();
  return is_finalizing != nullptr && is_finalizing() != 0;
}

// While the interpreter ends, only the main thread may take the GIL. Any other thread stops here forever.
void stop_if_interpreter_ends() {
  while (interpreter_ends() && !on_main_thread()) ::pause();
}

// If torch is imported and sees a GPU, lets torch make the context of its current device current on this thread. Does
// not import torch.
bool make_torch_context_current() {
  const GilAcquire gil;
  const nb::dict modules = nb::borrow<nb::dict>(nb::module_::import_("sys").attr("modules"));
  if (!modules.contains("torch")) return false;
  const nb::object cuda = nb::object(modules["torch"]).attr("cuda");
  if (!nb::cast<bool>(cuda.attr("is_available")())) return false;
  cuda.attr("synchronize")();
  return true;
}

nb::dict metric_dict(const Metric& metric) {
  nb::dict out;
  out["ms"] = metric.ms;
  out["best_ms"] = metric.best_ms;
  out["input_bytes"] = metric.input_bytes;
  out["output_bytes"] = metric.output_bytes;
  out["count"] = metric.count;
  return out;
}

nb::dict stats_dict(const Stats& stats) {
  nb::dict out;
  for (const auto& [name, member] : kMetrics) out[name.data()] = metric_dict(stats.*member);
  for (const NamedCounter& counter : kCounters) out[counter.name.data()] = stats.*counter.value;
  return out;
}

// For each counter what it counts, and whether it is a gauge.
nb::dict counters_dict() {
  nb::dict out;
  for (const NamedCounter& counter : kCounters)
    out[counter.name.data()] = nb::make_tuple(counter.meaning.data(), counter.kind == CounterKind::gauge);
  return out;
}

nb::dict explanation_dict(const Explanation& explanation) {
  nb::list stages;
  for (const StageLoad& stage : explanation.stages)
    stages.append(nb::make_tuple(stage.name.c_str(), stage.busy, stage.bytes_per_s));
  nb::dict out;
  out["binds"] = explanation.binds.c_str();
  out["share"] = explanation.share;
  out["bytes_per_s"] = explanation.bytes_per_s;
  out["consumer_waited"] = explanation.consumer_waited;
  out["stages"] = stages;
  out["wanted_again"] = explanation.wanted_again;
  out["encoded_bytes"] = std::llround(explanation.encoded_bytes);
  out["decoded_bytes"] = std::llround(explanation.decoded_bytes);
  out["advice"] = explanation.advice.c_str();
  out["text"] = explanation.text.c_str();
  return out;
}

nb::dict info_dict(const Batch& batch, std::optional<std::string_view> array) {
  const BatchInfo info = batch.info(array);
  nb::dict out;
  out["device_ptr"] = info.device_ptr;
  out["shape"] = tuple_of(info.shape);
  out["dtype"] = static_cast<int>(info.dtype);
  out["ready_stream"] = info.ready_stream;
  out["batch_id"] = info.batch_id;
  return out;
}

// A batch, and the Python samples of its rows.
struct BoundBatch {
  Batch native;
  std::vector<nb::object> samples;
};

int traverse_batch(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const nb::object& sample : nb::inst_ptr<BoundBatch>(self)->samples) Py_VISIT(sample.ptr());
  return 0;
}

int clear_batch(PyObject* self) {
  if (nb::inst_ready(self)) static_cast<void>(std::exchange(nb::inst_ptr<BoundBatch>(self)->samples, {}));
  return 0;
}

PyType_Slot collectable_batch[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_batch)},
                                   {Py_tp_clear, reinterpret_cast<void*>(&clear_batch)},
                                   {0, nullptr}};

void bind_batch(nb::module_& m) {
  nb::class_<BoundBatch>(m, "Batch", nb::type_slots(collectable_batch))
      .def(
          "info",
          [](const BoundBatch& b, const std::optional<std::string>& array) { return info_dict(b.native, array); },
          nb::arg("array") = nb::none())
      .def_prop_ro("names", [](const BoundBatch& b) { return tuple_of(b.native.names()); })
      .def_prop_ro("batch_id", [](const BoundBatch& b) { return b.native.batch_id(); })
      .def_prop_ro("released", [](const BoundBatch& b) { return b.native.released(); })
      .def_prop_ro("valid",
                   [](const BoundBatch& b) {
                     nb::list out;
                     for (const bool v : b.native.valid()) out.append(nb::bool_(v));
                     return nb::tuple(out);
                   })
      .def_prop_ro("sample_indices", [](const BoundBatch& b) { return tuple_of(b.native.sample_indices()); })
      .def_prop_ro("samples", [](const BoundBatch& b) { return tuple_of(b.samples); })
      .def(
          "release", [](BoundBatch& b, std::optional<std::uint64_t> stream) { b.native.release(stream); },
          nb::arg("stream") = nb::none())
      .def(
          "dlpack",
          [](const BoundBatch& b, nb::object stream, nb::object max_version, nb::object dl_device, nb::object copy,
             const std::optional<std::string>& array) {
            return dlpack_capsule(b.native, array, std::move(stream), std::move(max_version), std::move(dl_device),
                                  std::move(copy));
          },
          nb::arg("stream").none(), nb::arg("max_version").none(), nb::arg("dl_device").none(), nb::arg("copy").none(),
          nb::arg("array") = nb::none())
      .def_prop_ro("on_host", [](const BoundBatch& b) { return b.native.on_host(); })
      .def("dlpack_device", [](const BoundBatch& b) {
        const DlDevice device = b.native.device();
        return nb::make_tuple(device.type, device.index);
      });
}

}  // namespace

std::function<void()> signal_checker() {
  if (!on_main_thread()) return {};
  return run_signal_handlers;
}

GilAcquire::GilAcquire() {
  stop_if_interpreter_ends();
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {  // see ~GilRelease
    for (;;) ::pause();
  }
}

NoUnwind::~NoUnwind() {
  stop_if_interpreter_ends();
}

GilRelease::~GilRelease() {
  stop_if_interpreter_ends();
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {  // the interpreter ended during the wait for the GIL and unwinds this thread, which must stay here
    for (;;) ::pause();
  }
}

namespace {

// Caches the Python objects that are needed to pull samples or to raise an error. A finalizer may do so while the
// interpreter ends, when nothing can be imported.
void keep_python_parts() {
  python_part("damacy._pipeline.sample", "Sample");
  python_part("damacy._core.errors", "make_error");
  python_part("damacy._pipeline.sources", "let_go_of_frames");
  python_part("damacy._pipeline.sources", "EndsBatch");
  python_part("damacy._core.integers", "shown");
}

// The native pipeline, and the Python objects that it holds.
struct BoundPipeline {
  // Declared first, so that it outlives the pipeline, which drops samples when it ends.
  std::shared_ptr<SampleObjects> samples = std::make_shared<SampleObjects>();
  Pipeline native;
  std::shared_ptr<HeldObjects> held = std::make_shared<HeldObjects>();
};

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto* const pipeline = nb::inst_ptr<BoundPipeline>(self);
  if (const int stop = pipeline->samples->visit(visit, arg)) return stop;
  return pipeline->held->visit(visit, arg);
}

void close(BoundPipeline& pipeline) {
  pipeline.native.close();
  pipeline.samples->release_all();
}

// Called for a cycle: a source, a sample or an exception of a source refers to the pipeline that holds it.
int clear(PyObject* self) {
  try {
    if (nb::inst_ready(self)) close(*nb::inst_ptr<BoundPipeline>(self));
  } catch (const std::bad_alloc&) {  // the next collection tries again
  }
  return 0;
}

PyType_Slot collectable[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)}, {Py_tp_clear, reinterpret_cast<void*>(&clear)}, {0, nullptr}};

// `seconds`: a time of the monotonic clock.
Pipeline::Deadline deadline_at(std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  constexpr double kFar = 4e9;
  return std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(*seconds, kFar) * 1e9)));
}

// Like Pipeline::take_due. Creating the Python exception runs Python code, and with it signal handlers. If one of them
// raises, the error is put back and stays due.
std::optional<Batch> take_or_raise(Pipeline& pipeline) {
  try {
    return pipeline.take_due();
  } catch (const Error& error) {
    if (error.status() == Status::shutdown) throw;
    nb::object exception;
    try {
      exception = exception_of(error);
    } catch (const nb::python_error&) {
      pipeline.put_back(std::make_exception_ptr(error));
      throw;
    }
    PyErr_SetObject(exception.type().ptr(), exception.ptr());
    throw nb::python_error();
  }
}

// Returns the batch that is due, raises the error that is due in its place, or returns None. Allocates
// the Python object first, so that no batch is lost if that fails.
nb::object take_due(BoundPipeline& pipeline) {
  nb::object out = nb::inst_alloc(nb::type<BoundBatch>());
  std::vector<nb::object> samples;
  samples.reserve(static_cast<std::size_t>(pipeline.native.config().batch_size));
  std::optional<Batch> batch = take_or_raise(pipeline.native);
  if (!batch) return nb::none();
  for (const auto& origin : batch->origins()) samples.push_back(SampleObjects::take(origin));
  new (nb::inst_ptr<BoundBatch>(out)) BoundBatch{std::move(*batch), std::move(samples)};
  nb::inst_mark_ready(out);
  return out;
}

}  // namespace

void bind_pipeline(nb::module_& m) {
  bind_batch(m);
  m.def("stats_counters", &counters_dict);
  nb::class_<BoundPipeline>(m, "Pipeline", nb::type_slots(collectable))
      .def(
          "__init__",
          [](BoundPipeline* self, const nb::dict& fields) {
            keep_python_parts();
            const Config config = config_of(fields);
            PipelineEnvironment around;
            around.while_waiting = run_signal_handlers;
            around.make_context_current = make_torch_context_current;
            around.keeps_batches = fields.contains("keeps_batches") && nb::cast<bool>(fields["keeps_batches"]);
            if (fields.contains("device_from_bytes"))  // tests: the device decodes small batches too
              around.device_from_bytes = nb::cast<std::uint64_t>(fields["device_from_bytes"]);
            if (fields.contains("host_device"))  // tests: the ordering of a GPU's work, without one
              around.device = make_host_device({.kind = HostOrder::Kind::lazy});
            const GilRelease unlocked;
            new (self) BoundPipeline{.native = Pipeline(config, std::move(around))};
          },
          nb::arg("fields"))
      .def(
          "push",
          [](BoundPipeline& p, nb::object samples) {
            p.samples->release_dropped();
            auto source = source_of(std::move(samples), p.held, p.samples);
            const GilRelease unlocked;
            p.native.push(std::move(source));
          },
          nb::arg("samples"))
      .def(
          "await_due",
          [](BoundPipeline& p, std::optional<double> until) {
            p.samples->release_dropped();
            const GilRelease unlocked;
            p.native.await_due(deadline_at(until));
          },
          nb::arg("until").none(),
          "Waits until a batch or an error is due, at most until that time of the monotonic clock.")
      .def_prop_ro("due", &take_due, "Takes the batch that is due, raises the error that is due, or returns None.")
      .def(
          "flush", [](BoundPipeline& p) { p.native.flush(); }, nb::call_guard<GilRelease>())
      .def("close",
           [](BoundPipeline& p) {
             {
               const GilRelease unlocked;
               p.native.close();
             }
             p.samples->release_all();
           })
      .def_prop_ro(
          "pending", [](const BoundPipeline& p) { return p.native.pending(); }, nb::call_guard<GilRelease>())
      .def("stats",
           [](const BoundPipeline& p) {
             Stats stats;
             {
               const GilRelease unlocked;
               stats = p.native.stats();
             }
             return stats_dict(stats);
           })
      .def("explain",
           [](const BoundPipeline& p) {
             Explanation explanation;
             {
               const GilRelease unlocked;
               explanation = p.native.explain();
             }
             return explanation_dict(explanation);
           })
      .def(
          "stats_reset", [](BoundPipeline& p) { p.native.stats_reset(); }, nb::call_guard<GilRelease>())
      .def_prop_ro(
          "is_named", [](const BoundPipeline& p) { return p.native.is_named(); }, nb::call_guard<GilRelease>())
      .def_prop_ro("device", [](const BoundPipeline& p) { return p.native.device(); }, nb::call_guard<GilRelease>());
}

}  // namespace damacy::python
