// Files for damacy.cufile: converts arguments to requests of the fileio layer, and results back. Releases the GIL while
// a call blocks.
#include "cufile.h"

#include <algorithm>

#include <fcntl.h>

#include "damacy/core/formatted.h"
#include "damacy/fileio/engine_choice.h"

namespace damacy::python {

std::uint64_t size_within(nb::handle size, std::uint64_t available) {
  const std::uint64_t wanted = natural(size, "size", available);
  if (wanted > available)
    raise(PyExc_ValueError,
          formatted("Size is greater than the size of the buffer: {} bytes of {}", wanted, available));
  return wanted;
}

void check_end(std::uint64_t offset, std::uint64_t size) {
  if (size > File::kMaxOffset - offset)
    raise(PyExc_OverflowError, formatted("file_offset + size is above 2^63 - 1: {} + {}", offset, size));
}

void check_target(const HeldBuffer& buffer, Direction direction) {
  if (direction == Direction::read && buffer.read_only())
    raise(PyExc_ValueError, "cannot read into a read-only buffer");
}

namespace {

bool is_list(nb::handle buf) {
  return PyList_Check(buf.ptr()) || PyTuple_Check(buf.ptr());
}

// A request for one buffer, checked.
struct Single {
  HeldBuffer buffer;
  std::uint64_t size = 0, offset = 0, task_size = 0;
  std::span<std::byte> memory() const noexcept { return {buffer.data(), size}; }
};

Single parse_single(Direction direction, nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle task_size,
                    nb::handle stream) {
  Single out;
  out.buffer.take(buf, stream);
  check_target(out.buffer, direction);
  out.size = size_within(size, out.buffer.size());
  out.offset = natural(file_offset, "file_offset", 0);
  out.task_size = natural(task_size, "task_size", 0);
  check_end(out.offset, out.size);
  return out;
}

// A request parsed from Python's arguments, with its buffers.
struct Parsed {
  FileRequest request;
  std::shared_ptr<HeldBuffers> held = std::make_shared<HeldBuffers>();
  std::uint64_t size = 0;
};

Parsed request_of(const std::shared_ptr<File>& file, Direction direction, Single single, bool exact) {
  Parsed out;
  out.size = single.size;
  out.request = {file, direction, single.offset, {}, {single.task_size, exact}};
  FileMemory memory = single.buffer.memory();
  memory.size = single.size;
  if (memory.size > 0) out.request.memory.push_back(std::move(memory));
  out.held->all.push_back(std::move(single.buffer));
  return out;
}

Parsed parse_list(const std::shared_ptr<File>& file, Direction direction, nb::handle buf, nb::handle size,
                  nb::handle file_offset, nb::handle task_size, nb::handle stream, bool exact) {
  Parsed out;
  out.held->all.reserve(static_cast<std::size_t>(PyObject_Size(buf.ptr())));
  std::uint64_t available = 0;
  for (const nb::handle one : buf) {
    HeldBuffer& buffer = out.held->all.emplace_back();
    buffer.take(one, stream);
    check_target(buffer, direction);
    available += buffer.size();
  }
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

std::uint64_t transfer_parsed(Parsed parsed) {
  const bool one_part = is_one_part(parsed.size, parsed.request.options.task_size);
  std::shared_ptr<Operation> operation;
  {
    const GilRelease unlocked;
    operation = begin_request(std::move(parsed.request), /*queue=*/!one_part);
    operation->run_all(signal_checker());
  }
  parsed.held->release();
  if (const auto error = operation->error()) throw_object(exception_object(error));
  return operation->count();
}

std::uint64_t transfer(NativeFile& file, Direction direction, nb::handle buf, nb::handle size, nb::handle file_offset,
                       nb::handle task_size, nb::handle stream, bool exact) {
  if (is_list(buf))
    return transfer_parsed(parse_list(file.shared(), direction, buf, size, file_offset, task_size, stream, exact));
  Single single = parse_single(direction, buf, size, file_offset, task_size, stream);
  if (!single.buffer.on_device() && is_one_part(single.size, single.task_size)) {  // it needs no operation
    const GilRelease unlocked;
    return direction == Direction::read ? read_now(*file.shared(), single.memory(), single.offset, exact)
                                        : write_now(*file.shared(), single.memory(), single.offset);
  }
  return transfer_parsed(request_of(file.shared(), direction, std::move(single), exact));
}

PythonFuture begin_parsed(Parsed parsed) {
  std::shared_ptr<Operation> operation;
  {
    const GilRelease unlocked;
    operation = begin_request(std::move(parsed.request));
  }
  return make_future(std::move(operation), std::move(parsed.held));
}

PythonFuture begin_transfer(NativeFile& file, Direction direction, nb::handle buf, nb::handle size,
                            nb::handle file_offset, nb::handle task_size, nb::handle stream, bool exact) {
  if (is_list(buf))
    return begin_parsed(parse_list(file.shared(), direction, buf, size, file_offset, task_size, stream, exact));
  Single single = parse_single(direction, buf, size, file_offset, task_size, stream);
  if (direction == Direction::read && !exact && !single.buffer.on_device()) {
    const auto count = without_gil([&] { return read_if_resident(*file.shared(), single.memory(), single.offset); });
    if (count) return make_future(*count);
  }
  return begin_parsed(request_of(file.shared(), direction, std::move(single), exact));
}

// -- raw -------------------------------------------------------------------------------------------------------------

Parsed parse_raw(NativeFile& file, Direction direction, nb::handle buf, nb::handle size, nb::handle file_offset,
                 nb::handle dev_offset, nb::handle stream, bool exact) {
  Parsed out;
  HeldBuffer& buffer = out.held->all.emplace_back();
  buffer.take(buf, stream);
  if (buffer.is_host()) raise(PyExc_ValueError, "Non-CUDA buffers not supported");
  check_target(buffer, direction);
  const std::uint64_t skipped = natural(dev_offset, "dev_offset", 0);
  if (skipped > buffer.size())
    raise(PyExc_ValueError, formatted("dev_offset is beyond the buffer: {} of {} bytes", skipped, buffer.size()));
  out.size = natural(size, "size", buffer.size() - skipped);
  if (out.size > buffer.size() - skipped)
    raise(PyExc_ValueError, formatted("Size is greater than the size of the buffer: dev_offset {} + {} bytes of {}",
                                      skipped, out.size, buffer.size()));
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
    const GilRelease unlocked;
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
    const GilRelease unlocked;
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

void open_file(NativeFile* self, nb::object file, const std::string& flags, int mode, std::optional<int> dir_fd,
               std::optional<int> compat_mode, const std::optional<std::string>& engine, std::optional<int> direct_io) {
  const OpenFlags how = OpenFlags::parse(flags);
  const FileOptions options = options_of(compat_mode, engine, direct_io);
  if (PyBytes_Check(file.ptr())) {
    File::Place place{{PyBytes_AsString(file.ptr()), static_cast<std::size_t>(PyBytes_Size(file.ptr()))},
                      dir_fd.value_or(AT_FDCWD),
                      static_cast<mode_t>(mode)};
    const GilRelease unlocked;
    new (self) NativeFile(open_with_engine(options, place.path, [&] { return File::open(place, how, options); }));
  } else {
    const int fd = nb::cast<int>(file);
    const GilRelease unlocked;
    new (self) NativeFile(
        open_with_engine(options, formatted("descriptor {}", fd), [&] { return File::adopt(fd, how, options); }));
  }
}

int descriptor_of(NativeFile& file, bool direct) {
  const FileUse use(file.shared());
  if (!direct) return use->descriptor();
  const int fd = without_gil([&] { return use->direct_descriptor(); });
  if (fd < 0) raise(PyExc_ValueError, formatted("the file has no direct descriptor: {}", use->why_not_direct()));
  return fd;
}

// The native part of CuFile.explain().
nb::dict facts_of(NativeFile& file) {
  const FileUse use(file.shared());
  nb::dict out;
  out["filesystem"] = without_gil([&] { return use->filesystem(); });
  out["dio_alignment"] = nb::make_tuple(use->direct_memory_alignment(), use->direct_offset_alignment());
  out["compat_mode"] = static_cast<int>(use->compat_mode());
  out["engine"] = std::string(name_of(use->engine()));
  out["direct_io_read"] = direct_object(use->direct_io(/*writing=*/false));
  out["direct_io_write"] = direct_object(use->direct_io(/*writing=*/true));
  out["why_not_direct"] = use->why_not_direct();
  out["why_not_cufile"] = without_gil([&] { return why_no_cufile(*use); });
  return out;
}

int status_flags_of(NativeFile& file, bool direct) {
  const FileUse use(file.shared());
  return ::fcntl(descriptor_of(file, direct), F_GETFL);
}

void bind_file(nb::module_& m) {
  using nb::arg;
  nb::class_<NativeFile> file(m, "CuFile", nb::is_weak_referenceable());
  file.def("__init__", &open_file, arg("file"), arg("flags"), arg("mode"), arg("dir_fd").none(),
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
            const GilRelease unlocked;
            f->close(wait);
          },
          arg("wait") = true)
      .def_prop_ro("closed", [](NativeFile& f) { return f->closed(); })
      .def_prop_ro("append_base", [](NativeFile& f) { return f->append_base(); })
      .def_prop_ro("path", [](NativeFile& f) { return nb::bytes(f->path().data(), f->path().size()); })
      .def("fileno", &descriptor_of, arg("direct") = false)
      .def("open_flags", &status_flags_of, arg("direct") = false)
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
             return use->may_be_direct() && without_gil([&] { return use->direct_descriptor(); }) >= 0;
           })
      .def("facts", &facts_of)
      .def("counters", [](NativeFile& f) { return counters_dict(f->counters()); });
  bind_gather(file, m);
}

}  // namespace

void bind_cufile(nb::module_& m) {
  bind_future(m);
  bind_file(m);
  bind_io_process(m);
  bind_gds_store(m);
}

}  // namespace damacy::python
