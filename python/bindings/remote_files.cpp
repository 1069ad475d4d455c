// Remote files: converts arguments to reads of the layer `remote`, and results back. Releases the GIL while a call
// blocks.
#include "cufile.h"
#include "damacy/remote/remote_file.h"
#include "damacy/store/mounts.h"
#include "damacy/store/storage_call.h"
#include "packed_ranges.h"
#include "remote_options.h"

namespace damacy::python {
namespace {

// The native part of RemoteFile. Running reads keep the file.
class NativeRemoteFile {
 public:
  explicit NativeRemoteFile(std::shared_ptr<RemoteFile> file) : file_(std::move(file)) {}
  RemoteFile* operator->() const noexcept { return file_.get(); }

 private:
  const std::shared_ptr<RemoteFile> file_;
};

void open_remote(NativeRemoteFile* self, const std::string& uri, std::optional<std::uint64_t> bytes,
                 std::optional<nb::dict> fields, int attempts, double timeout_s, std::vector<int> repeated_status) {
  std::optional<StoreOptions> options;
  if (fields) options = store_options_of(*fields);
  StoreUse use;
  use.head_bytes = 1;
  if (!options && !mounted_options_of_uri(without_secrets(uri))) {
    use.attempts = attempts;
    use.deadline_s = timeout_s;
    use.repeated_status = std::move(repeated_status);
  }
  const GilRelease unlocked;
  auto file =
      storage_result([=] { return RemoteFile::open(uri, bytes, options, use); }, {.while_waiting = signal_checker()});
  new (self) NativeRemoteFile(std::move(file));
}

struct Parsed {
  RemoteRead read;
  std::shared_ptr<HeldBuffers> held = std::make_shared<HeldBuffers>();
};

Parsed parse(nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle task_size, nb::handle stream,
             bool exact) {
  Parsed out;
  const auto add = [&](nb::handle one) {
    HeldBuffer& buffer = out.held->all.emplace_back();
    buffer.take(one, stream);
    check_target(buffer, Direction::read);
  };
  if (PyList_Check(buf.ptr()) || PyTuple_Check(buf.ptr())) {
    for (const nb::handle one : buf) add(one);
  } else {
    add(buf);
  }
  std::uint64_t available = 0;
  for (const HeldBuffer& buffer : out.held->all) available += buffer.size();
  std::uint64_t left = size_within(size, available);
  RemoteRange& range = out.read.ranges.emplace_back();
  range.offset = natural(file_offset, "file_offset", 0);
  check_end(range.offset, left);
  out.read.task_size = natural(task_size, "task_size", 0);
  out.read.exact = exact;
  for (const HeldBuffer& buffer : out.held->all) {
    FileMemory memory = buffer.memory();
    memory.size = std::min(memory.size, left);
    left -= memory.size;
    if (memory.size > 0) range.memory.push_back(std::move(memory));
  }
  return out;
}

PythonFuture begin(NativeRemoteFile& file, Parsed parsed) {
  std::shared_ptr<Operation> operation;
  {
    const GilRelease unlocked;
    operation = file->begin_read(std::move(parsed.read));
  }
  return make_future(std::move(operation), std::move(parsed.held), /*caller_helps=*/false);
}

// A signal whose handler raises ends the requests.
std::uint64_t read_now(NativeRemoteFile& file, Parsed parsed) {
  std::shared_ptr<Operation> operation;
  {
    const GilRelease unlocked;
    operation = file->begin_read(std::move(parsed.read));
    try {
      operation->wait(std::chrono::hours(24 * 365), signal_checker());
    } catch (...) {
      operation->drop_rest(/*as_cancelled=*/true);
      operation->job().stop();
      operation->wait(std::nullopt);
      throw;
    }
  }
  parsed.held->release();
  if (const auto error = operation->error()) throw_object(exception_object(error));
  return operation->count();
}

PythonFuture begin_packed(NativeRemoteFile& file, nb::handle buf, nb::handle sizes, nb::handle file_offsets,
                          nb::handle buf_offsets, bool exact, nb::handle stream) {
  Parsed parsed;
  parsed.read.exact = exact;
  HeldBuffer& buffer = parsed.held->all.emplace_back();
  buffer.take(buf, stream);
  check_target(buffer, Direction::read);
  const PackedRanges ranges(sizes, file_offsets, buf_offsets);
  parsed.read.ranges.reserve(ranges.size());
  ranges.for_each(buffer, [&](std::uint64_t offset, std::uint64_t size, std::uint64_t at) {
    RemoteRange& range = parsed.read.ranges.emplace_back();
    range.offset = offset;
    if (size > 0) range.memory.push_back({buffer.data() + at, size, buffer.memory().device});
  });
  return begin(file, std::move(parsed));
}

}  // namespace

void bind_remote_files(nb::module_& m) {
  using nb::arg;
  nb::class_<NativeRemoteFile>(m, "RemoteFile", nb::is_weak_referenceable())
      .def("__init__", &open_remote, arg("uri"), arg("nbytes").none(), arg("options").none(), arg("attempts"),
           arg("timeout_s"), arg("repeated_status"))
      .def(
          "read_parsed",
          [](NativeRemoteFile& f, nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle task_size,
             nb::handle stream,
             bool exact) { return read_now(f, parse(buf, size, file_offset, task_size, stream, exact)); },
          arg("buf"), arg("size").none(), arg("file_offset"), arg("task_size").none(), arg("stream").none(),
          arg("exact"))
      .def(
          "begin_read",
          [](NativeRemoteFile& f, nb::handle buf, nb::handle size, nb::handle file_offset, nb::handle task_size,
             nb::handle stream,
             bool exact) { return begin(f, parse(buf, size, file_offset, task_size, stream, exact)); },
          arg("buf"), arg("size").none(), arg("file_offset"), arg("task_size").none(), arg("stream").none(),
          arg("exact"))
      .def("begin_packed", &begin_packed, arg("buf"), arg("sizes"), arg("file_offsets"), arg("buf_offsets").none(),
           arg("exact"), arg("stream").none())
      .def("close", [](NativeRemoteFile& f) { f->close(); })
      .def("nbytes", [](NativeRemoteFile& f) { return f->bytes(); })
      .def_prop_ro("closed", [](NativeRemoteFile& f) { return f->closed(); })
      .def_prop_ro("name", [](NativeRemoteFile& f) { return f->name(); });
}

}  // namespace damacy::python
