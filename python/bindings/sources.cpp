// Python iterables of samples as sources. Every touch of a Python object holds the GIL.
#include <optional>

#include <nanobind/stl/string.h>

#include "bindings.h"

namespace damacy::python {
namespace {

// As operator.length_hint(x, -1) >= 0; what a hint raises is no business of ours.
bool tells_length(const nb::object& iterable) {
  try {
    return nb::cast<std::int64_t>(nb::module_::import_("operator").attr("length_hint")(iterable, -1)) >= 0;
  } catch (const nb::python_error&) {
    return false;
  }
}

class PythonSource final : public SampleSource {
 public:
  explicit PythonSource(nb::object iterable)
      : has_length_(tells_length(iterable)), iterator_(nb::steal(PyObject_GetIter(iterable.ptr()))) {
    if (!iterator_.is_valid()) throw nb::python_error();
  }
  ~PythonSource() override {
    if (!Py_IsInitialized()) {
      iterator_.release();
      return;
    }
    const nb::gil_scoped_acquire gil;
    iterator_.reset();
  }

  std::optional<Sample> next() override {
    const nb::gil_scoped_acquire gil;
    const nb::object item = nb::steal(PyIter_Next(iterator_.ptr()));
    if (!item.is_valid()) {
      if (PyErr_Occurred()) throw nb::python_error();
      return std::nullopt;
    }
    return sample_of(item, position_++);
  }
  bool has_length() const override { return has_length_; }
  bool may_wait(const std::exception_ptr& thrown) const override {
    try {
      std::rethrow_exception(thrown);
    } catch (const nb::python_error& error) {
      const nb::gil_scoped_acquire gil;
      return error.matches(PyExc_Exception);
    } catch (...) {
      return true;
    }
  }

 private:
  static Sample sample_of(const nb::object& item, std::int64_t position) {
    const nb::object type = nb::module_::import_("damacy._sample").attr("Sample");
    if (!nb::isinstance(item, type))
      throw nb::type_error(
          ("sample " + std::to_string(position) + ": expected Sample, got " + type_name(item)).c_str());
    Sample sample;
    const nb::object uri = item.attr("uri");
    const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(uri.ptr()));
    if (!encoded.is_valid()) {
      PyErr_Clear();
      throw Error(Status::inval, "the uri cannot be encoded for the file system", "uri")
          .at_sample(position)
          .in_stage("push");
    }
    sample.uri.assign(PyBytes_AsString(encoded.ptr()), static_cast<std::size_t>(PyBytes_Size(encoded.ptr())));
    for (const nb::handle axis : item.attr("aabb"))
      sample.aabb.emplace_back(bound_of(axis[0], position), bound_of(axis[1], position));
    return sample;
  }

  static std::string type_name(const nb::object& item) { return nb::cast<std::string>(item.type().attr("__name__")); }

  static std::int64_t bound_of(const nb::object& value, std::int64_t position) {
    const long long bound = PyLong_AsLongLong(value.ptr());
    if (bound == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      throw Error(Status::inval, "an aabb bound does not fit 64 bits", "aabb").at_sample(position).in_stage("push");
    }
    return bound;
  }

  bool has_length_;
  nb::object iterator_;
  std::int64_t position_ = 0;
};

}  // namespace

std::shared_ptr<SampleSource> source_of(nb::object iterable) {
  return std::make_shared<PythonSource>(std::move(iterable));
}

}  // namespace damacy::python
