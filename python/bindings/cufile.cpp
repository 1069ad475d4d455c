// Files, futures and settings of file I/O for damacy.cufile and damacy.defaults: arguments in, results out. What blocks
// drops the GIL.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>

#include <fcntl.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include "bindings.h"
#include "cufile_buffers.h"
#include "damacy/core/text.h"
#include "damacy/io/cufile_api.h"
#include "damacy/io/engine_choice.h"
#include "damacy/io/file.h"
#include "damacy/io/file_error.h"
#include "damacy/io/file_requests.h"
#include "damacy/io/io_pool.h"
#include "damacy/io/io_settings.h"
#include "damacy/io/operation.h"
#include "damacy/io/page_cache.h"
#include "damacy/io/staging.h"

namespace damacy::python {
namespace {

[[noreturn]] void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

// -- errors ----------------------------------------------------------------------------------------------------------

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
  return nb::module_::import_("damacy._io_errors")
      .attr("make_file_error")(kind_name(error.file_kind), text_object(error.message()), more);
}

nb::object cuda_exception(const Error& error) {
  nb::dict more;
  more["backend"] = "cuda";
  more["cuda_code"] = error.system_errno();
  more["sticky"] = error.sticky();
  return nb::module_::import_("damacy._io_errors").attr("make_file_error")("cuda", text_object(error.message()), more);
}

// Any failure of an operation as a Python exception object.
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

[[noreturn]] void throw_object(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

void translate_file_error(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const FileError& error) {
    const nb::object exception = exception_of_file(error);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  }
}

// -- arguments -------------------------------------------------------------------------------------------------------

std::uint64_t size_within(nb::handle size, std::uint64_t available) {
  const std::uint64_t wanted = natural(size, "size", available);
  if (wanted > available)
    raise(PyExc_ValueError, text("Size is greater than the size of the buffer: ", wanted, " bytes of ", available));
  return wanted;
}

void check_end(std::uint64_t offset, std::uint64_t size) {
  if (size > File::kMaxOffset - offset)
    raise(PyExc_OverflowError, text("file_offset + size is above 2^63 - 1: ", offset, " + ", size));
}

void check_target(const HeldBuffer& buffer, Direction direction) {
  if (direction == Direction::read && buffer.read_only())
    raise(PyExc_ValueError, "cannot read into a read-only buffer");
}

bool is_list(nb::handle buf) {
  return PyList_Check(buf.ptr()) || PyTuple_Check(buf.ptr());
}

// A whole request from Python's arguments, with its buffers.
struct Parsed {
  FileRequest request;
  std::shared_ptr<HeldBuffers> held = std::make_shared<HeldBuffers>();
  std::uint64_t size = 0;
};

Parsed parse(const std::shared_ptr<File>& file, Direction direction, nb::handle buf, nb::handle size,
             nb::handle file_offset, nb::handle task_size, nb::handle stream, bool exact) {
  Parsed out;
  const auto add = [&](nb::handle one) {
    HeldBuffer& buffer = out.held->all.emplace_back();
    buffer.take(one, stream);
    check_target(buffer, direction);
  };
  if (is_list(buf)) {
    out.held->all.reserve(static_cast<std::size_t>(PyObject_Size(buf.ptr())));
    for (const nb::handle one : buf) add(one);
  } else {
    add(buf);
  }
  std::uint64_t available = 0;
  for (const HeldBuffer& buffer : out.held->all) available += buffer.size();
  out.size = size_within(size, available);
  out.request = {file, direction, natural(file_offset, "file_offset", 0), {}, {}};
  out.request.options = {natural(task_size, "task_size", 0), exact};
  check_end(out.request.offset, out.size);
  std::uint64_t left = out.size;
  for (const HeldBuffer& buffer : out.held->all) {
    FileMemory memory = buffer.memory();
    memory.size = std::min(memory.size, left);
    left -= memory.size;
    if (memory.size > 0) out.request.memory.push_back(std::move(memory));
  }
  return out;
}

// -- futures ---------------------------------------------------------------------------------------------------------

std::atomic<bool> python_ends{false};

// What an IOFuture of damacy.cufile holds.
class IoHandle {
 public:
  IoHandle(std::shared_ptr<Operation> operation, std::shared_ptr<HeldBuffers> held)
      : operation_(std::move(operation)), held_(std::move(held)) {
    for (const HeldBuffer& buffer : held_->all)
      if (buffer.on_device() && (devices_.empty() || devices_.back() != buffer.memory().device->device))
        devices_.push_back(buffer.memory().device->device);
    if (operation_->done()) {
      held_->release();
      return;
    }
    // The operation outlives this handle if need be, and its buffers with it.
    operation_->when_done([held = held_] {
      if (python_ends) return;
      const HeldGil gil;
      held->release();
    });
  }

  // A read that ended before its future was made.
  explicit IoHandle(std::uint64_t count) : ended_with_(count) {}

  bool done() const { return operation_ == nullptr || is_lost() || operation_->done(); }
  bool cancelled() const {
    return operation_ != nullptr && !is_lost() && operation_->parts_ended() && operation_->cancelled();
  }
  bool cancel() {
    if (operation_ == nullptr || is_lost()) return false;
    const Unlocked unlocked;
    return operation_->drop_rest(/*as_cancelled=*/true);
  }

  // Null: no error. Throws TimeoutError, and what a signal handler raises.
  nb::object failure(std::optional<double> timeout) {
    if (operation_ == nullptr) return {};
    if (!is_lost()) await(timeout);
    if (is_lost())
      return exception_of(
          Error(Status::shutdown, "the operation belongs to the process this one was forked from", "forked")
              .in_stage("forked"));
    held_->release();
    if (operation_->cancelled())
      return nb::module_::import_("concurrent.futures").attr("CancelledError")("the operation was cancelled");
    if (const auto error = operation_->error()) return exception_object(error);
    return {};
  }

  std::uint64_t result(std::optional<double> timeout) {
    if (const nb::object error = failure(timeout); error.is_valid()) throw_object(error);
    return operation_ == nullptr ? ended_with_ : operation_->count();
  }

  nb::object exception(std::optional<double> timeout) {
    const nb::object error = failure(timeout);
    if (!error.is_valid()) return nb::none();
    if (cancelled()) throw_object(error);
    return error;
  }

  std::vector<std::uint64_t> counts() {
    const std::uint64_t count = result(std::nullopt);
    return operation_ == nullptr ? std::vector{count} : operation_->counts();
  }

  // The file part is waited for here, the copies by that stream.
  std::uint64_t wait_stream(std::uint64_t stream) {
    if (operation_ == nullptr || is_lost()) return result(std::nullopt);
    {
      const Unlocked unlocked;
      operation_->wait_parts(std::nullopt, signal_checker());
    }
    if (operation_->cancelled() || operation_->error() != nullptr) return result(std::nullopt);
    const Unlocked unlocked;
    for (const Event& event : operation_->copies())
      for (const auto& device : devices_) device->make_wait(stream, event);
    return operation_->count();
  }

  void when_done(nb::object call) {
    if (done()) {
      call();
      return;
    }
    auto shared = std::make_shared<nb::object>(std::move(call));
    operation_->when_done([shared] {
      if (python_ends) return;
      const HeldGil gil;
      try {
        (*shared)();
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("a callback of an IOFuture");
      }
      shared->reset();
    });
  }

 private:
  // Of another process, and nobody will end it here.
  bool is_lost() const { return operation_->is_parents() && !operation_->parts_ended(); }

  void await(std::optional<double> timeout) {
    std::optional<std::chrono::nanoseconds> limit;
    if (timeout) {
      constexpr double kMost = 9e9;  // seconds; more is no limit
      if (std::isnan(*timeout)) raise(PyExc_ValueError, "timeout is not a number");
      if (*timeout < kMost) limit = std::chrono::nanoseconds(static_cast<std::int64_t>(std::max(*timeout, 0.0) * 1e9));
    }
    bool in_time = true;
    {
      const Unlocked unlocked;
      in_time = operation_->wait(limit, signal_checker());
    }
    if (!in_time) raise(PyExc_TimeoutError, "the operation has not ended yet");
  }

  const std::shared_ptr<Operation> operation_;
  const std::shared_ptr<HeldBuffers> held_;
  const std::uint64_t ended_with_ = 0;
  std::vector<std::shared_ptr<Device>> devices_;
};

// -- files -----------------------------------------------------------------------------------------------------------

// The native half of CuFile. A Python object that is dropped acts as close(wait=False): what runs holds the File.
class NativeFile {
 public:
  explicit NativeFile(std::shared_ptr<File> file) : file_(std::move(file)) {}
  ~NativeFile() { file_->close(/*wait=*/false); }
  NativeFile(const NativeFile&) = delete;
  NativeFile& operator=(const NativeFile&) = delete;
  File* operator->() const noexcept { return file_.get(); }
  const std::shared_ptr<File>& shared() const noexcept { return file_; }

 private:
  std::shared_ptr<File> file_;
};

std::uint64_t transfer(NativeFile& file, Direction direction, nb::handle buf, nb::handle size, nb::handle file_offset,
                       nb::handle task_size, nb::handle stream, bool exact) {
  if (!is_list(buf)) {  // what needs no operation: one part of host memory
    HeldBuffer buffer;
    buffer.take(buf, stream);
    check_target(buffer, direction);
    const std::uint64_t bytes = size_within(size, buffer.size());
    const std::uint64_t offset = natural(file_offset, "file_offset", 0);
    const std::uint64_t task = natural(task_size, "task_size", 0);
    check_end(offset, bytes);
    if (!buffer.on_device() && is_one_part(bytes, task)) {
      const std::span memory(buffer.data(), bytes);
      const Unlocked unlocked;
      return direction == Direction::read ? read_now(*file.shared(), memory, offset, exact)
                                          : write_now(*file.shared(), memory, offset);
    }
  }
  Parsed parsed = parse(file.shared(), direction, buf, size, file_offset, task_size, stream, exact);
  const bool one_part = is_one_part(parsed.size, parsed.request.options.task_size);
  std::shared_ptr<Operation> operation;
  {
    const Unlocked unlocked;
    operation = begin_request(std::move(parsed.request), /*queue=*/!one_part);
    operation->run_all(signal_checker());
  }
  parsed.held->release();
  if (const auto error = operation->error()) throw_object(exception_object(error));
  return operation->count();
}

IoHandle* begin_transfer(NativeFile& file, Direction direction, nb::handle buf, nb::handle size, nb::handle file_offset,
                         nb::handle task_size, nb::handle stream, bool exact) {
  Parsed parsed = parse(file.shared(), direction, buf, size, file_offset, task_size, stream, exact);
  if (direction == Direction::read && !exact && parsed.held->all.size() == 1 && !parsed.held->all[0].on_device()) {
    const std::span memory(parsed.held->all[0].data(), parsed.size);
    const Unlocked unlocked;
    if (const auto count = read_if_resident(*parsed.request.file, memory, parsed.request.offset))
      return new IoHandle(*count);
  }
  std::shared_ptr<Operation> operation;
  {
    const Unlocked unlocked;
    operation = begin_request(std::move(parsed.request));
  }
  return new IoHandle(std::move(operation), parsed.held);
}

// -- gather ----------------------------------------------------------------------------------------------------------

// Ranges of a gather as they are collected: device memory is numbered by device and stream.
struct Gather {
  GatherRequest request;
  std::shared_ptr<HeldBuffers> held = std::make_shared<HeldBuffers>();

  std::uint32_t memory_of(const HeldBuffer& buffer) {
    if (!buffer.on_device()) return 0;
    auto& devices = request.devices;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (devices[i]->device == buffer.memory().device->device && streams[i] == buffer.stream())
        return static_cast<std::uint32_t>(i + 1);
    devices.push_back(buffer.memory().device);
    streams.push_back(buffer.stream());
    return static_cast<std::uint32_t>(devices.size());
  }

  void add(std::uint32_t file, nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle stream) {
    HeldBuffer& buffer = held->all.emplace_back();
    buffer.take(buf, stream);
    check_target(buffer, request.direction);
    const GatherRange range{file, memory_of(buffer), natural(file_offset, "file_offset", 0),
                            size_within(size, buffer.size()), buffer.data()};
    check_end(range.offset, range.size);
    request.ranges.push_back(range);
  }

  std::uint32_t file_index(const std::shared_ptr<File>& file) {
    const auto at = std::find(request.files.begin(), request.files.end(), file);
    if (at != request.files.end()) return static_cast<std::uint32_t>(at - request.files.begin());
    request.files.push_back(file);
    return static_cast<std::uint32_t>(request.files.size() - 1);
  }

  IoHandle* begin() {
    std::shared_ptr<Operation> operation;
    {
      const Unlocked unlocked;
      operation = begin_gather(std::move(request));
    }
    return new IoHandle(std::move(operation), held);
  }

  std::vector<std::uint64_t> streams;
};

void expect_length(nb::handle sequence, Py_ssize_t length, const char* what) {
  if (!PySequence_Check(sequence.ptr()) || PySequence_Size(sequence.ptr()) != length) {
    PyErr_Clear();
    raise(PyExc_TypeError, text("each request: expected ", what));
  }
}

IoHandle* begin_vectored(NativeFile& file, Direction direction, nb::handle requests, bool exact, nb::handle stream) {
  Gather gather;
  gather.request.direction = direction;
  gather.request.options.exact = exact;
  gather.request.files.push_back(file.shared());
  for (const nb::handle one : requests) {
    expect_length(one, 3, "(buf, size or None, file_offset)");
    gather.add(0, nb::object(one[0]), nb::object(one[1]), nb::object(one[2]), stream);
  }
  return gather.begin();
}

IoHandle* begin_many(nb::handle requests, bool exact, nb::handle stream) {
  Gather gather;
  gather.request.options.exact = exact;
  for (const nb::handle one : requests) {
    expect_length(one, 4, "(file, buf, size or None, file_offset)");
    const std::uint32_t file = gather.file_index(nb::cast<NativeFile&>(nb::object(one[0])).shared());
    gather.add(file, nb::object(one[1]), nb::object(one[2]), nb::object(one[3]), stream);
  }
  return gather.begin();
}

// An array of int64 by the buffer protocol.
class Int64Array {
 public:
  Int64Array(nb::handle object, const char* name) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS) != 0) {
      PyErr_Clear();
      raise(PyExc_TypeError, text(name, ": expected an array of int64"));
    }
    held_ = true;
    const std::string_view format = view_.format != nullptr ? view_.format : "";
    const bool is_int64 = view_.itemsize == 8 && (format == "l" || format == "q" || format == "<q" || format == "<l" ||
                                                  format == "=q" || format == "@l");
    if (!is_int64) raise(PyExc_TypeError, text(name, ": expected an array of int64 (got format \"", format, "\")"));
    name_ = name;
  }
  Int64Array(const Int64Array&) = delete;
  Int64Array& operator=(const Int64Array&) = delete;
  ~Int64Array() {
    if (held_) PyBuffer_Release(&view_);
  }
  std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len) / 8; }
  std::uint64_t operator[](std::size_t i) const {
    const std::int64_t value = static_cast<const std::int64_t*>(view_.buf)[i];
    if (value < 0) raise(PyExc_OverflowError, text("negative value: ", name_, "[", i, "]"));
    return static_cast<std::uint64_t>(value);
  }

 private:
  Py_buffer view_{};
  bool held_ = false;
  const char* name_ = "";
};

IoHandle* begin_packed(NativeFile& file, Direction direction, nb::handle buf, nb::handle sizes, nb::handle file_offsets,
                       nb::handle buf_offsets, bool exact, nb::handle stream) {
  Gather gather;
  gather.request.direction = direction;
  gather.request.options.exact = exact;
  gather.request.files.push_back(file.shared());
  HeldBuffer& buffer = gather.held->all.emplace_back();
  buffer.take(buf, stream);
  check_target(buffer, direction);
  const Int64Array size(sizes, "sizes");
  const Int64Array offset(file_offsets, "file_offsets");
  std::optional<Int64Array> place;
  if (!buf_offsets.is_none()) place.emplace(buf_offsets, "buf_offsets");
  if (offset.size() != size.size() || (place && place->size() != size.size()))
    raise(PyExc_ValueError, "sizes, file_offsets and buf_offsets differ in length");
  const std::uint32_t memory = gather.memory_of(buffer);
  gather.request.ranges.reserve(size.size());
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < size.size(); ++i) {
    const std::uint64_t at = place ? (*place)[i] : next;
    if (at > buffer.size() || size[i] > buffer.size() - at)
      raise(PyExc_ValueError, text("Size is greater than the size of the buffer: range ", i, ", ", size[i],
                                   " bytes at ", at, " of ", buffer.size()));
    check_end(offset[i], size[i]);
    gather.request.ranges.push_back({0, memory, offset[i], size[i], buffer.data() + at});
    next = at + size[i];
  }
  return gather.begin();
}

// -- raw -------------------------------------------------------------------------------------------------------------

Parsed parse_raw(NativeFile& file, Direction direction, nb::handle buf, nb::handle size, nb::handle file_offset,
                 nb::handle dev_offset, nb::handle stream, bool exact) {
  Parsed out;
  HeldBuffer& buffer = out.held->all.emplace_back();
  buffer.take(buf, stream);
  if (!buffer.on_device() && buffer.size() > 0) raise(PyExc_ValueError, "Non-CUDA buffers not supported");
  check_target(buffer, direction);
  const std::uint64_t skipped = natural(dev_offset, "dev_offset", 0);
  if (skipped > buffer.size())
    raise(PyExc_ValueError, text("dev_offset is beyond the buffer: ", skipped, " of ", buffer.size(), " bytes"));
  out.size = natural(size, "size", buffer.size() - skipped);
  if (out.size > buffer.size() - skipped)
    raise(PyExc_ValueError, text("Size is greater than the size of the buffer: dev_offset ", skipped, " + ", out.size,
                                 " bytes of ", buffer.size()));
  out.request = {file.shared(), direction, natural(file_offset, "file_offset", 0), {}, {}};
  out.request.options = {std::max<std::uint64_t>(out.size, 1), exact};
  check_end(out.request.offset, out.size);
  FileMemory memory = buffer.memory();
  memory.data += skipped;
  memory.size = out.size;
  if (out.size > 0) out.request.memory.push_back(std::move(memory));
  return out;
}

std::uint64_t transfer_raw(NativeFile& file, Direction direction, nb::handle buf, nb::handle size,
                           nb::handle file_offset, nb::handle dev_offset, bool exact) {
  Parsed parsed = parse_raw(file, direction, buf, size, file_offset, dev_offset, nb::none(), exact);
  std::shared_ptr<Operation> operation;
  {
    const Unlocked unlocked;
    operation = begin_request(std::move(parsed.request), /*queue=*/false);
    operation->run_all(signal_checker());
  }
  parsed.held->release();
  if (const auto error = operation->error()) throw_object(exception_object(error));
  return operation->count();
}

IoHandle* begin_raw(NativeFile& file, Direction direction, nb::handle buf, nb::handle stream, nb::handle size,
                    nb::handle file_offset, nb::handle dev_offset) {
  Parsed parsed = parse_raw(file, direction, buf, size, file_offset, dev_offset, stream, false);
  const std::uint64_t handle = parsed.held->all[0].stream();
  std::shared_ptr<Operation> operation;
  {
    const Unlocked unlocked;
    operation = begin_in_stream(std::move(parsed.request), handle);
  }
  return new IoHandle(std::move(operation), parsed.held);
}

FileOptions options_of(std::optional<int> compat_mode, const std::optional<std::string>& engine,
                       std::optional<int> direct_io) {
  FileOptions options;
  if (compat_mode) options.compat_mode = static_cast<CompatMode>(*compat_mode);
  if (engine) options.engine = parse_engine(*engine);
  if (direct_io) options.direct_io = static_cast<DirectIo>(*direct_io);
  return options;
}

// With compatibility mode OFF a file that cuFile does not take is refused here.
std::shared_ptr<File> ready(std::shared_ptr<File> file) {
  if (file->compat_mode() == CompatMode::off) register_with_cufile(*file);
  return file;
}

void open_file(NativeFile* self, nb::object file, const std::string& flags, int mode, std::optional<int> dir_fd,
               std::optional<int> compat_mode, const std::optional<std::string>& engine, std::optional<int> direct_io) {
  const OpenFlags how = OpenFlags::parse(flags);
  const FileOptions options = options_of(compat_mode, engine, direct_io);
  if (PyBytes_Check(file.ptr())) {
    File::Place place{{PyBytes_AsString(file.ptr()), static_cast<std::size_t>(PyBytes_Size(file.ptr()))},
                      dir_fd.value_or(AT_FDCWD),
                      static_cast<mode_t>(mode)};
    const Unlocked unlocked;
    new (self) NativeFile(ready(File::open(place, how, options)));
  } else {
    const int fd = nb::cast<int>(file);
    const Unlocked unlocked;
    new (self) NativeFile(ready(File::adopt(fd, how, options)));
  }
}

int descriptor_of(NativeFile& file, bool direct) {
  const FileUse use(file.shared());
  if (!direct) return use->descriptor();
  const int fd = use->direct_descriptor();
  if (fd < 0) raise(PyExc_ValueError, text("there is no direct descriptor: ", use->why_not_direct()));
  return fd;
}

// What explain() says of a file, as far as the native half knows it.
nb::dict facts_of(NativeFile& file) {
  const FileUse use(file.shared());
  nb::dict out;
  out["filesystem"] = use->filesystem();
  out["dio_alignment"] = nb::make_tuple(use->direct_memory_alignment(), use->direct_offset_alignment());
  out["compat_mode"] = static_cast<int>(use->compat_mode());
  out["engine"] = std::string(name_of(use->engine()));
  out["direct_io_read"] = use->wants_direct(false);
  out["direct_io_write"] = use->wants_direct(true);
  out["why_not_direct"] = use->why_not_direct();
  out["why_not_cufile"] = why_no_cufile(*use);
  return out;
}

int status_flags_of(NativeFile& file, bool direct) {
  const FileUse use(file.shared());
  return ::fcntl(descriptor_of(file, direct), F_GETFL);
}

// -- settings --------------------------------------------------------------------------------------------------------

nb::object direct_object(DirectIo value) {
  if (value == DirectIo::automatic) return nb::str("auto");
  return nb::bool_(value == DirectIo::on);
}

nb::dict settings_dict() {
  const IoSettings& s = io_settings();
  nb::dict out;
  out["compat_mode"] = static_cast<int>(s.compat_mode);
  out["num_threads"] = s.num_threads;
  out["task_size"] = s.task_size;
  out["gds_threshold"] = s.gds_threshold;
  out["bounce_buffer_size"] = s.bounce_buffer_size;
  out["auto_direct_io_read"] = direct_object(s.auto_direct_io_read);
  out["auto_direct_io_write"] = direct_object(s.auto_direct_io_write);
  out["http_max_attempts"] = s.http_max_attempts;
  out["http_timeout"] = s.http_timeout;
  nb::list codes;
  for (const auto code : s.http_status_codes) codes.append(code);
  out["http_status_codes"] = codes;
  out["engine"] = std::string(name_of(s.engine));
  out["auto_threads"] = s.auto_threads;
  out["queue_depth"] = s.queue_depth;
  out["pinned_limit"] = s.pinned_limit;
  out["coalesce_gap"] = s.coalesce_gap;
  out["num_threads_set"] = s.num_threads_set;
  return out;
}

DirectIo direct_of(nb::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True ? DirectIo::on : DirectIo::off;
  return DirectIo::automatic;
}

// Values that damacy.defaults has checked.
void change_settings(const nb::dict& values) {
  change_io_settings([&](IoSettings& s) {
    const auto number = [&](const char* name, std::uint64_t& into) {
      if (values.contains(name)) into = nb::cast<std::uint64_t>(values[name]);
    };
    if (values.contains("compat_mode")) s.compat_mode = static_cast<CompatMode>(nb::cast<int>(values["compat_mode"]));
    number("num_threads", s.num_threads);
    if (values.contains("num_threads")) s.num_threads_set = true;
    if (values.contains("num_threads_set")) s.num_threads_set = nb::cast<bool>(values["num_threads_set"]);
    number("task_size", s.task_size);
    number("gds_threshold", s.gds_threshold);
    number("bounce_buffer_size", s.bounce_buffer_size);
    if (values.contains("auto_direct_io_read")) s.auto_direct_io_read = direct_of(values["auto_direct_io_read"]);
    if (values.contains("auto_direct_io_write")) s.auto_direct_io_write = direct_of(values["auto_direct_io_write"]);
    number("http_max_attempts", s.http_max_attempts);
    number("http_timeout", s.http_timeout);
    if (values.contains("http_status_codes"))
      s.http_status_codes = nb::cast<std::vector<std::int64_t>>(values["http_status_codes"]);
    if (values.contains("engine"))
      s.engine = parse_engine(nb::cast<std::string>(values["engine"])).value_or(EngineChoice::automatic);
    number("auto_threads", s.auto_threads);
    number("queue_depth", s.queue_depth);
    number("pinned_limit", s.pinned_limit);
    number("coalesce_gap", s.coalesce_gap);
  });
}

void end_with_python() {
  {
    const Unlocked unlocked;
    IoPool::process().shut_down(std::chrono::seconds(5));
  }
  python_ends = true;
}

nb::dict counters_dict(const IoCounters& c) {
  nb::dict out;
  for (std::size_t way = 0; way < kIoWays; ++way) {
    for (std::size_t d = 0; d < 2; ++d) {
      const std::string name = text(kIoWayNames[way], d == 0 ? "_read" : "_write");
      out[nb::str(text(name, "_bytes").c_str())] = c.traffic[way][d].bytes.load();
      out[nb::str(text(name, "_calls").c_str())] = c.traffic[way][d].calls.load();
    }
  }
  out["parts"] = c.parts.load();
  out["short_reads"] = c.short_reads.load();
  out["retries"] = c.retries.load();
  out["resident_bytes"] = c.resident_bytes.load();
  out["cold_bytes"] = c.cold_bytes.load();
  out["copies"] = c.copies.load();
  out["copy_batches"] = c.copy_batches.load();
  out["host_waits"] = c.host_waits.load();
  out["pinned_bytes"] = c.pinned_bytes.load();
  nb::list histogram;
  for (const auto& count : c.part_us_log2) histogram.append(count.load());
  out["part_us_log2"] = histogram;
  out["workers"] = IoPool::process().workers();
  return out;
}

void bind_file(nb::module_& m) {
  using nb::arg;
  nb::class_<NativeFile>(m, "CuFile", nb::is_weak_referenceable())
      .def("__init__", &open_file, arg("file"), arg("flags"), arg("mode"), arg("dir_fd").none(),
           arg("compat_mode").none(), arg("engine").none(), arg("direct_io").none())
      .def(
          "read",
          [](NativeFile& f, nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle task_size,
             nb::handle stream,
             bool exact) { return transfer(f, Direction::read, buf, size, file_offset, task_size, stream, exact); },
          arg("buf"), arg("size").none() = nb::none(), arg("file_offset") = 0, arg("task_size").none() = nb::none(),
          nb::kw_only(), arg("stream").none() = nb::none(), arg("exact") = false)
      .def(
          "write",
          [](NativeFile& f, nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle task_size,
             nb::handle stream) {
            return transfer(f, Direction::write, buf, size, file_offset, task_size, stream, false);
          },
          arg("buf"), arg("size").none() = nb::none(), arg("file_offset") = 0, arg("task_size").none() = nb::none(),
          nb::kw_only(), arg("stream").none() = nb::none())
      .def(
          "begin_read",
          [](NativeFile& f, nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle task_size,
             nb::handle stream, bool exact) {
            return begin_transfer(f, Direction::read, buf, size, file_offset, task_size, stream, exact);
          },
          arg("buf"), arg("size").none(), arg("file_offset"), arg("task_size").none(), arg("stream").none(),
          arg("exact"))
      .def(
          "begin_write",
          [](NativeFile& f, nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle task_size,
             nb::handle stream) {
            return begin_transfer(f, Direction::write, buf, size, file_offset, task_size, stream, false);
          },
          arg("buf"), arg("size").none(), arg("file_offset"), arg("task_size").none(), arg("stream").none())
      .def(
          "close",
          [](NativeFile& f, bool wait) {
            const Unlocked unlocked;
            f->close(wait);
          },
          arg("wait") = true)
      .def_prop_ro("closed", [](NativeFile& f) { return f->closed(); })
      .def_prop_ro("append_base", [](NativeFile& f) { return f->append_base(); })
      .def_prop_ro("path", [](NativeFile& f) { return nb::bytes(f->path().data(), f->path().size()); })
      .def("fileno", &descriptor_of, arg("direct") = false)
      .def("open_flags", &status_flags_of, arg("direct") = false)
      .def(
          "begin_readv",
          [](NativeFile& f, nb::handle requests, bool exact, nb::handle stream) {
            return begin_vectored(f, Direction::read, requests, exact, stream);
          },
          arg("requests"), arg("exact"), arg("stream").none())
      .def(
          "begin_writev",
          [](NativeFile& f, nb::handle requests, nb::handle stream) {
            return begin_vectored(f, Direction::write, requests, false, stream);
          },
          arg("requests"), arg("stream").none())
      .def(
          "begin_packed",
          [](NativeFile& f, bool reading, nb::handle buf, nb::handle sizes, nb::handle file_offsets,
             nb::handle buf_offsets, bool exact, nb::handle stream) {
            return begin_packed(f, reading ? Direction::read : Direction::write, buf, sizes, file_offsets, buf_offsets,
                                exact, stream);
          },
          arg("reading"), arg("buf"), arg("sizes"), arg("file_offsets"), arg("buf_offsets").none(), arg("exact"),
          arg("stream").none())
      .def(
          "raw",
          [](NativeFile& f, bool reading, nb::handle buf, nb::handle size, nb::handle file_offset,
             nb::handle dev_offset, bool exact) {
            return transfer_raw(f, reading ? Direction::read : Direction::write, buf, size, file_offset, dev_offset,
                                exact);
          },
          arg("reading"), arg("buf"), arg("size").none(), arg("file_offset"), arg("dev_offset"), arg("exact"))
      .def(
          "begin_raw",
          [](NativeFile& f, bool reading, nb::handle buf, nb::handle stream, nb::handle size, nb::handle file_offset,
             nb::handle dev_offset) {
            return begin_raw(f, reading ? Direction::read : Direction::write, buf, stream, size, file_offset,
                             dev_offset);
          },
          arg("reading"), arg("buf"), arg("stream").none(), arg("size").none(), arg("file_offset"), arg("dev_offset"))
      .def("is_direct_io_supported",
           [](NativeFile& f) {
             const FileUse use(f.shared());
             return use->direct_descriptor() >= 0;
           })
      .def("facts", &facts_of)
      .def("counters", [](NativeFile& f) { return counters_dict(f->counters()); });
}

void bind_future(nb::module_& m) {
  using nb::arg;
  nb::class_<IoHandle>(m, "IoHandle")
      .def("done", &IoHandle::done)
      .def("cancelled", &IoHandle::cancelled)
      .def("cancel", &IoHandle::cancel)
      .def("result", &IoHandle::result, arg("timeout").none())
      .def("exception", &IoHandle::exception, arg("timeout").none())
      .def("counts", &IoHandle::counts)
      .def("wait_stream", &IoHandle::wait_stream, arg("stream"))
      .def("when_done", &IoHandle::when_done, arg("call"));
}

}  // namespace

void bind_cufile(nb::module_& m) {
  nb::register_exception_translator(translate_file_error);
  bind_file(m);
  bind_future(m);
  m.def(
      "cufile_look_in", [](std::vector<std::string> packages) { cufile::set_packages(std::move(packages)); },
      nb::arg("packages"), "Folders of Python packages, where libcufile may lie.");
  m.def("cufile_preference", [] {
    const auto& found = cufile::compat_preference();
    return nb::make_tuple(found.compat, found.why);
  });
  m.def("cufile_probe", [] {
    const auto& library = cufile::process_library();
    nb::list tried;
    for (const auto& [name, outcome] : library.tried) tried.append(nb::make_tuple(name, outcome));
    nb::dict out;
    out["usable"] = library.loaded;
    out["library"] = library.name;
    out["version"] = library.version;
    out["reason"] = library.why;
    out["tried"] = tried;
    return out;
  });
  m.def("io_uring_probe", [] {
    const auto& probe = probe_uring();
    nb::dict out;
    out["usable"] = probe.usable;
    out["reason"] = probe.why;
    return out;
  });
  m.def("io_settings", &settings_dict, "The settings of file I/O as they are now.");
  m.def("io_change_settings", &change_settings, nb::arg("values"));
  m.def("io_pause", [](bool paused) { IoPool::process().pause(paused); }, nb::arg("paused"));
  m.def("io_paused", [] { return IoPool::process().paused(); });
  m.def("io_replace_workers", [] {
    const Unlocked unlocked;
    IoPool::process().replace_workers();
  });
  m.def(
      "plain_pread",
      [](int fd, nb::handle buf, nb::handle size, nb::handle file_offset) {
        Py_buffer view;
        if (PyObject_GetBuffer(buf.ptr(), &view, PyBUF_INDIRECT) != 0) throw nb::python_error();
        const std::uint64_t bytes = natural(size, "size", static_cast<std::uint64_t>(view.len));
        const std::uint64_t offset = natural(file_offset, "file_offset", 0);
        ssize_t n = 0;
        {
          const Unlocked unlocked;
          n = ::pread(fd, view.buf, bytes, static_cast<off_t>(offset));
        }
        PyBuffer_Release(&view);
        return n;
      },
      nb::arg("fd"), nb::arg("buf"), nb::arg("size").none() = nb::none(), nb::arg("file_offset") = 0,
      "One pread and no more: what a bound function costs at least, for the benchmark.");
  m.def("dlpack_memory", &dlpack_memory, nb::arg("capsule"));
  m.def("begin_many", &begin_many, nb::arg("requests"), nb::arg("exact"), nb::arg("stream").none());
  m.def("free_staging", [] {
    const Unlocked unlocked;
    return StagingPool::process().free_idle();
  });
  m.def(
      "cached_pages",
      [](int fd, std::uint64_t offset, std::uint64_t length) {
        CachedPages found;
        {
          const Unlocked unlocked;
          found = cached_pages(fd, offset, length);
        }
        return nb::make_tuple(found.resident, found.total);
      },
      nb::arg("fd"), nb::arg("offset"), nb::arg("length"));
  m.def("drop_cached_pages", &drop_cached_pages, nb::arg("fd"), nb::arg("offset"), nb::arg("length"),
        nb::arg("sync_first"), nb::call_guard<Unlocked>());
  m.def("io_counters", [] { return counters_dict(process_counters()); });
  m.def("io_end_with_python", &end_with_python);
}

}  // namespace damacy::python
