// Gather requests: many ranges of one or several files, given as Python sequences or as packed arrays.
#include <algorithm>

#include "cufile.h"
#include "damacy/core/formatted.h"
#include "packed_ranges.h"

namespace damacy::python {
namespace {

// Collects the ranges of a gather request. Device memory is numbered by device and stream.
struct Gather {
  GatherRequest request;
  std::shared_ptr<HeldBuffers> held = std::make_shared<HeldBuffers>();

  std::uint32_t memory_of(const HeldBuffer& buffer) {
    if (!buffer.on_device()) return 0;
    auto& devices = request.devices;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (devices[i]->device == buffer.memory().device->device && request.streams[i] == buffer.stream())
        return static_cast<std::uint32_t>(i + 1);
    devices.push_back(buffer.memory().device);
    request.streams.push_back(buffer.stream());
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

  PythonFuture begin() {
    std::shared_ptr<Operation> operation;
    {
      const GilRelease unlocked;
      operation = begin_gather(std::move(request));
    }
    return make_future(std::move(operation), held);
  }
};

void expect_length(nb::handle sequence, Py_ssize_t length, const char* what) {
  if (!PySequence_Check(sequence.ptr()) || PySequence_Size(sequence.ptr()) != length) {
    PyErr_Clear();
    raise(PyExc_TypeError, formatted("each request: expected {}", what));
  }
}

PythonFuture begin_vectored(NativeFile& file, Direction direction, nb::handle requests, bool exact, nb::handle stream) {
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

PythonFuture begin_many(nb::handle requests, bool exact, nb::handle stream) {
  Gather gather;
  gather.request.options.exact = exact;
  for (const nb::handle one : requests) {
    expect_length(one, 4, "(file, buf, size or None, file_offset)");
    const nb::object file = one[0];
    if (!nb::isinstance<NativeFile>(file)) raise(PyExc_TypeError, "each request: expected a CuFile as first entry");
    gather.add(gather.file_index(nb::cast<NativeFile&>(file).shared()), nb::object(one[1]), nb::object(one[2]),
               nb::object(one[3]), stream);
  }
  return gather.begin();
}

PythonFuture begin_packed(NativeFile& file, Direction direction, nb::handle buf, nb::handle sizes,
                          nb::handle file_offsets, nb::handle buf_offsets, bool exact, nb::handle stream) {
  Gather gather;
  gather.request.direction = direction;
  gather.request.options.exact = exact;
  gather.request.files.push_back(file.shared());
  HeldBuffer& buffer = gather.held->all.emplace_back();
  buffer.take(buf, stream);
  check_target(buffer, direction);
  const PackedRanges ranges(sizes, file_offsets, buf_offsets);
  const std::uint32_t memory = gather.memory_of(buffer);
  gather.request.ranges.reserve(ranges.size());
  ranges.for_each(buffer, [&](std::uint64_t offset, std::uint64_t size, std::uint64_t at) {
    gather.request.ranges.push_back({0, memory, offset, size, buffer.data() + at});
  });
  return gather.begin();
}

}  // namespace

void bind_gather(nb::class_<NativeFile>& file, nb::module_& m) {
  using nb::arg;
  file.def(
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
          arg("stream").none());
  m.def("begin_many", &begin_many, arg("requests"), arg("exact"), arg("stream").none());
}

}  // namespace damacy::python
