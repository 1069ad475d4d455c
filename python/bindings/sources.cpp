// Python iterables of samples as sources. Python objects are used only with the GIL held.
#include <optional>

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "config_fields.h"
#include "damacy/core/formatted.h"

namespace damacy::python {
namespace {

// Like operator.length_hint(x, -1) >= 0; an Exception that a hint raises is ignored.
bool tells_length(const nb::object& iterable) {
  try {
    return nb::cast<std::int64_t>(nb::module_::import_("operator").attr("length_hint")(iterable, -1)) >= 0;
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    return false;
  }
}

nb::object iterator_of(const nb::object& iterable) {
  nb::object iterator = nb::steal(PyObject_GetIter(iterable.ptr()));
  if (!iterator.is_valid()) throw nb::python_error();
  return iterator;
}

class PythonSource final : public SampleSource {
 public:
  PythonSource(const nb::object& iterable, std::shared_ptr<HeldObjects> among, std::shared_ptr<SampleObjects> samples)
      : has_length_(tells_length(iterable)),
        among_(std::move(among)),
        samples_(std::move(samples)),
        ends_batch_(python_part("damacy._pipeline.sources", "EndsBatch").ptr()),
        sample_type_(python_part("damacy._pipeline.sample", "Sample").ptr()),
        iterator_(among_, iterator_of(iterable)) {}

  std::optional<Sample> next() override {
    const GilAcquire gil;
    const NoUnwind inside;  // the interpreter may end in the user's code
    try {
      samples_->release_dropped();
      const nb::object item = nb::steal(PyIter_Next(iterator_.get().ptr()));
      if (item.is_valid()) return next_of(item);
      if (PyErr_Occurred()) throw nb::python_error();
      return std::nullopt;
    } catch (nb::python_error& error) {
      throw SourceFailure(std::make_shared<HeldObject>(among_, nb::borrow(error.value())));
    }
  }
  bool has_length() const override { return has_length_; }
  bool set_aside(const std::exception_ptr& thrown) const override {
    try {
      std::rethrow_exception(thrown);
    } catch (const SourceFailure& failure) {
      const GilAcquire gil;
      if (PyErr_GivenExceptionMatches(failure.raised->get().ptr(), PyExc_Exception) == 0) return false;
      python_part("damacy._pipeline.sources", "let_go_of_frames")(failure.raised->get());
      return true;
    } catch (...) {
      return true;
    }
  }

 private:
  Sample next_of(const nb::object& item) {
    const bool ends_batch = item.type().ptr() == ends_batch_;
    nb::object object = ends_batch ? nb::object(item.attr("sample")) : item;
    Sample sample = sample_of(object, position_++);
    sample.ends_batch = ends_batch;
    sample.origin = samples_->carry(std::move(object));
    return sample;
  }

  Sample sample_of(const nb::object& item, std::int64_t position) const {
    if (!nb::isinstance(item, sample_type_))
      throw nb::type_error(
          formatted("sample {}: expected Sample, got {}: write damacy.Sample(uri, aabb)", position, type_name(item))
              .c_str());
    try {
      return sample_of(item);
    } catch (Error& error) {
      throw error.at_sample(position).in_stage("push");
    }
  }

  static Sample sample_of(const nb::object& item) {
    Sample sample;
    const nb::object named = item.attr("_named");
    if (const nb::object turns = item.attr("_turns"); !turns.is_none()) take_turns(turns, sample);
    if (named.is_none()) {
      sample.uri = path_of(item.attr("uri"));
      sample.aabb = ranges_of(item.attr("aabb"), sample.uri);
      return sample;
    }
    for (const nb::handle array : named) {
      const auto name = nb::cast<std::string>(array[0]);
      const bool stacked = nb::cast<bool>(array[1]);
      for (const nb::handle box : array[2]) add_part(sample, {name, {}, {}, stacked}, box);
    }
    return sample;
  }

  // What a sample does besides naming boxes: most do nothing.
  static void take_turns(const nb::object& turns, Sample& sample) {
    sample.flip = axes_of(turns[0]);
    sample.transpose = axes_of(turns[1]);
    take_numbers(turns[2], sample.scale);
    take_numbers(turns[3], sample.offset);
  }

  static void take_numbers(const nb::handle& by_name, std::vector<SampleNumbers>& into) {
    for (const nb::handle each : by_name) into.push_back({nb::cast<std::string>(each[0]), numbers_of(each[1])});
  }

  static void add_part(Sample& sample, Sample::Part part, const nb::handle& box) {
    try {
      part.uri = path_of(box[0]);
      part.aabb = ranges_of(box[1], part.uri);
    } catch (Error& error) {
      throw error.at_array(part.name);
    }
    sample.parts.push_back(std::move(part));
  }

  static std::string path_of(const nb::object& uri) {
    const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(uri.ptr()));
    if (!encoded.is_valid()) {
      PyErr_Clear();
      throw Error(Status::inval, "the uri cannot be encoded for the file system", "uri");
    }
    return {PyBytes_AsString(encoded.ptr()), static_cast<std::size_t>(PyBytes_Size(encoded.ptr()))};
  }

  static Sample::Ranges ranges_of(const nb::object& box, const std::string& uri) {
    Sample::Ranges ranges;
    ranges.reserve(nb::len(box));
    for (const nb::handle axis : box) {
      AxisRange& range = ranges.emplace_back();
      const auto bound = [&](const nb::object& value) { return bound_of(value, ranges.size() - 1, uri); };
      if (PyTuple_CheckExact(axis.ptr())) {
        range.start = bound(axis[0]);
        range.stop = bound(axis[1]);
      } else if (PyRange_Check(axis.ptr())) {
        range = {bound(axis.attr("start")), bound(axis.attr("stop")), bound(axis.attr("step"))};
      } else {
        for (const nb::handle index : axis.attr("indices")) range.indices.push_back(bound(nb::borrow(index)));
      }
    }
    return ranges;
  }

  static std::string type_name(const nb::object& item) { return nb::cast<std::string>(item.type().attr("__name__")); }

  static std::int64_t bound_of(const nb::object& value, std::size_t axis, const std::string& uri) {
    const long long bound = PyLong_AsLongLong(value.ptr());
    if (bound != -1 || !PyErr_Occurred()) return bound;
    PyErr_Clear();
    const nb::object shown = python_part("damacy._core.integers", "shown")(value);
    throw Error(Status::inval, formatted("aabb axis {}: {} does not fit 64 bits", axis, nb::cast<std::string>(shown)),
                "aabb")
        .at_uri(uri);
  }

  bool has_length_;
  std::shared_ptr<HeldObjects> among_;
  std::shared_ptr<SampleObjects> samples_;
  PyObject* ends_batch_;  // classes; python_part() keeps them alive
  PyObject* sample_type_;
  HeldObject iterator_;
  std::int64_t position_ = 0;
};

}  // namespace

HeldObject::HeldObject(std::shared_ptr<HeldObjects> among, nb::object object)
    : among_(std::move(among)), object_(std::move(object)) {
  among_->objects_.insert(object_.ptr());
}

HeldObject::~HeldObject() {
  if (!Py_IsInitialized()) {
    object_.release();
    return;
  }
  const GilAcquire gil;  // the interpreter may end before the GIL is acquired
  among_->objects_.erase(among_->objects_.find(object_.ptr()));
  object_.reset();
}

std::shared_ptr<SampleSource> source_of(nb::object iterable, const std::shared_ptr<HeldObjects>& among,
                                        const std::shared_ptr<SampleObjects>& samples) {
  return std::make_shared<PythonSource>(iterable, among, samples);
}

}  // namespace damacy::python
