// Converts errors to the Python classes of damacy._core.errors, and makes the text for their str().
#include "damacy/core/error.h"

#include <typeinfo>

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "damacy/core/dims.h"
#include "damacy/core/fork.h"

namespace damacy::python {
namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::plain:
      return "plain";
    case ErrorKind::unsupported_format:
      return "unsupported_format";
    case ErrorKind::pop_timeout:
      return "pop_timeout";
  }
  return "plain";
}

nb::object str_of(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

nb::dict attributes_of(const Error& error) {
  const ErrorWhere& where = error.where();
  nb::dict out;
  const auto set_text = [&](const char* name, const std::string& value) {
    if (!value.empty()) out[name] = str_of(value);
  };
  set_text("what", where.what);
  set_text("array", where.array);
  set_text("uri", where.uri);
  set_text("store", where.store);
  set_text("key", where.key);
  set_text("pointer", where.pointer);
  set_text("reason", where.reason);
  if (where.key_is_shard) out["_key_is_shard"] = true;
  if (where.chunk) out["chunk"] = tuple_of(*where.chunk);
  if (where.byte_range) out["byte_range"] = nb::make_tuple(where.byte_range->first, where.byte_range->second);
  if (where.sample_index) out["sample_index"] = *where.sample_index;
  if (where.stream_index) out["stream_index"] = *where.stream_index;
  if (where.batch_id) out["batch_id"] = *where.batch_id;
  if (!where.lost.empty()) out["lost"] = tuple_of(where.lost);
  if (where.http_status) out["http_status"] = *where.http_status;
  set_text("request_id", where.request_id);
  if (where.attempts) out["attempts"] = *where.attempts;
  if (error.system_errno() != 0) out["errno"] = error.system_errno();
  if (error.sticky()) out["sticky"] = true;
  return out;
}

// The text of any object as bytes. Surrogate escapes become the original bytes; other lone surrogates are escaped.
std::string text_of(nb::handle value) {
  const nb::str shown(value);
  for (const char* unencodable : {"surrogateescape", "backslashreplace"}) {
    const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(shown.ptr(), "utf-8", unencodable));
    if (bytes.is_valid()) return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
    PyErr_Clear();
  }
  return "?";
}

std::vector<std::int64_t> integers_of(nb::handle sequence) {
  std::vector<std::int64_t> out;
  for (const nb::handle item : sequence) out.push_back(nb::cast<std::int64_t>(item));
  return out;
}

std::string describe_error(int status, const nb::str& message, const nb::dict& attributes) {
  ErrorWhere where;
  for (const auto& [name, value] : attributes) {
    if (value.is_none()) continue;
    const auto field = nb::cast<std::string>(name);
    if (field == "what") where.what = text_of(value);
    if (field == "array") where.array = text_of(value);
    if (field == "uri") where.uri = text_of(value);
    if (field == "store") where.store = text_of(value);
    if (field == "key") where.key = text_of(value);
    if (field == "pointer") where.pointer = text_of(value);
    if (field == "reason") where.reason = text_of(value);
    if (field == "_key_is_shard") where.key_is_shard = nb::cast<bool>(value);
    if (field == "chunk") where.chunk = integers_of(value);
    if (field == "byte_range")
      where.byte_range = {nb::cast<std::uint64_t>(value[0]), nb::cast<std::uint64_t>(value[1])};
    if (field == "sample_index") where.sample_index = nb::cast<std::int64_t>(value);
    if (field == "stream_index") where.stream_index = nb::cast<std::int64_t>(value);
    if (field == "batch_id") where.batch_id = nb::cast<std::int64_t>(value);
    if (field == "lost") where.lost = integers_of(value);
  }
  return describe(static_cast<Status>(status), text_of(message), where);
}

void raise(const Error& error) {
  raise_made_by([&error] { return exception_of(error); });
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const SourceFailure& failure) {  // raises the same object, with its traceback
    PyObject* const raised = failure.raised->get().ptr();
#if PY_VERSION_HEX >= 0x030c0000
    PyErr_SetRaisedException(Py_NewRef(raised));
#else
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(raised))), Py_NewRef(raised),
                  PyException_GetTraceback(raised));
#endif
  } catch (const Error& error) {
    raise(error);
  } catch (const std::bad_cast&) {  // an element of a sequence, or a number
    raise(Error(Status::inval, "an argument has a wrong type, or a number is out of range", "arguments"));
  }
}

}  // namespace

nb::object exception_of(const Error& error) {
  const NoUnwind stays;
  const nb::object make = python_part("damacy._core.errors", "make_error");
  nb::object exception =
      make(static_cast<int>(error.status()), kind_name(error.kind()), str_of(error.message()), attributes_of(error));
  if (const void* const cause = error.cause().get(); cause != nullptr)  // what a store of Python raised
    PyException_SetCause(exception.ptr(), Py_NewRef(static_cast<PyObject*>(const_cast<void*>(cause))));
  return exception;
}

void bind_errors(nb::module_& m) {
  nb::register_exception_translator(translate);
  m.def("describe_error", &describe_error, nb::arg("status"), nb::arg("message"), nb::arg("attributes"),
        "The text of an error in one line, as the C++ library formats it.");
  m.def(
      "without_secrets", [](const nb::str& uri) { return str_of(without_secrets(text_of(uri))); }, nb::arg("uri"),
      "Removes user info, query and fragment from a URI with a scheme; returns other text unchanged.");
  m.def("fork_epoch", &fork_epoch, "A number that differs between a process and its forked children.");
}

}  // namespace damacy::python
