// Errors and futures of file I/O as Python objects.
#include <thread>

#include "cufile.h"
#include "damacy/fileio/file.h"

namespace damacy::python {

namespace {
std::atomic<bool> access_ended{false};
std::atomic<int> accesses{0};
}  // namespace

// enter() counts itself before it reads access_ended, and end() sets access_ended before it reads the count. So either
// enter() sees that access has ended, or end() sees the count and waits.
bool PythonAccess::enter() noexcept {
  ++accesses;
  if (!access_ended) return true;
  --accesses;
  return false;
}

PythonAccess::~PythonAccess() {
  if (granted_) --accesses;
}

bool PythonAccess::end(std::chrono::milliseconds patience) {
  access_ended = true;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (accesses > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return accesses == 0;
}

HeldBuffers::~HeldBuffers() {
  if (all.empty()) return;
  const PythonAccess access;
  if (!access) {
    static_cast<void>(std::make_unique<OneOrMore<HeldBuffer>>(std::move(all)).release());
    return;
  }
  const GilAcquire gil;
  all.clear();
}

nb::handle future_class() {
  static PyObject* const found = python_part("damacy._fileio.future", "IOFuture").release().ptr();
  return found;
}

void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

namespace {

const char* kind_name(FileErrorKind kind) {
  constexpr const char* kNames[] = {"io", "open", "mode", "short_read", "closed", "cufile", "cuda"};
  return kNames[static_cast<int>(kind)];
}

nb::object text_object(const std::string& value) {
  return nb::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "surrogateescape"));
}

nb::object exception_of_file(const FileError& error) {
  nb::dict more;
  const auto set = [&](const char* name, const std::optional<std::uint64_t>& value) {
    if (value) more[name] = *value;
  };
  if (!error.path.empty()) more["path"] = text_object(error.path);
  if (!error.backend.empty()) more["backend"] = text_object(error.backend);
  set("offset", error.offset);
  set("length", error.length);
  set("transferred", error.transferred);
  set("range_index", error.range_index);
  if (error.system_errno() != 0) more["errno"] = error.system_errno();
  if (error.cufile_code != 0) more["cufile_code"] = error.cufile_code;
  if (error.cuda_code != 0) more["cuda_code"] = error.cuda_code;
  if (error.sticky()) more["sticky"] = true;
  return python_part("damacy._fileio.errors", "make_file_error")(kind_name(error.file_kind),
                                                                 text_object(error.message()), more);
}

nb::object cuda_exception(const Error& error) {
  nb::dict more;
  more["backend"] = "cuda";
  more["cuda_code"] = error.system_errno();
  more["sticky"] = error.sticky();
  return python_part("damacy._fileio.errors", "make_file_error")("cuda", text_object(error.message()), more);
}

}  // namespace

// Converts any failure of an operation to a Python exception object.
nb::object exception_object(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const FileError& file) {
    return exception_of_file(file);
  } catch (const Error& other) {
    if (other.status() == Status::cuda) return cuda_exception(other);
    return exception_of(other);
  } catch (const std::exception& other) {
    return nb::borrow(PyExc_RuntimeError)(other.what());
  }
}

void throw_object(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

namespace {

void translate_file_error(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const FileError& error) {
    raise_made_by([&error] { return exception_of_file(error); });
  }
}

}  // namespace

void bind_future(nb::module_& m) {
  using nb::arg;
  nb::register_exception_translator(translate_file_error);
  nb::class_<IoHandle> handle(m, "IoHandle", nb::is_weak_referenceable());
  for (const char* name : {"get", "result"})
    handle.def(name, &IoHandle::result, arg("timeout").none() = nb::none(),
               "Waits, and returns the number of bytes read or written, or raises the error.\n\n"
               "Without a timeout, the caller's thread first runs parts that are still queued. Raises `TimeoutError` "
               "after\n`timeout` seconds; the operation continues.");
  handle.def("done", &IoHandle::done, "True after all parts have ended, with or without an error.")
      .def("exception", &IoHandle::exception, arg("timeout").none() = nb::none(),
           nb::sig("def exception(self, timeout: float | None = None) -> BaseException | None"),
           "Waits, and returns the error or None.")
      .def("cancel", &IoHandle::cancel,
           "Cancels the parts that have not started. False if there were none, or if the request had already failed.")
      .def("cancelled", &IoHandle::cancelled, "True if `cancel` cancelled some parts and all others have ended.")
      .def("counts", &IoHandle::counts,
           "Bytes read or written for each range of a gather request; one entry for any other request.")
      .def("make_stream_wait", &IoHandle::wait_stream, arg("stream"))
      .def("when_done", &IoHandle::when_done, arg("call"));
}

}  // namespace damacy::python
