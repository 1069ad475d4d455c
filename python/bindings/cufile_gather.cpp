// Gather requests: many ranges of one or several files, given as Python sequences or as packed arrays.
#include <algorithm>

#include "cufile.h"
#include "damacy/core/formatted.h"

namespace damacy::python {
namespace {

// Collects the ranges of a gather request. Device memory is numbered by device and stream.
struct Gather {
  GatherRequest request;
  std::shared_ptr<HeldBuffers> held = hold_buffers();

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
      const GilRelease unlocked;
      operation = begin_gather(std::move(request));
    }
    return new IoHandle(std::move(operation), held);
  }

  std::vector<std::uint64_t> streams;
};

void expect_length(nb::handle sequence, Py_ssize_t length, const char* what) {
  if (!PySequence_Check(sequence.ptr()) || PySequence_Size(sequence.ptr()) != length) {
    PyErr_Clear();
    raise(PyExc_TypeError, formatted("each request: expected {}", what));
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
    const nb::object file = one[0];
    if (!nb::isinstance<NativeFile>(file)) raise(PyExc_TypeError, "each request: expected a CuFile as first entry");
    gather.add(gather.file_index(nb::cast<NativeFile&>(file).shared()), nb::object(one[1]), nb::object(one[2]),
               nb::object(one[3]), stream);
  }
  return gather.begin();
}

// A view of an array of int64, by the buffer protocol.
class Int64Array {
 public:
  Int64Array(nb::handle object, const char* name) {
    if (!view_.take(object, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS)) {
      PyErr_Clear();
      raise(PyExc_TypeError, formatted("{}: expected an array of int64", name));
    }
    const std::string_view format = view_->format != nullptr ? view_->format : "";
    const bool is_int64 = view_->itemsize == 8 && (format == "l" || format == "q" || format == "<q" || format == "<l" ||
                                                   format == "=q" || format == "@l");
    if (!is_int64)
      raise(PyExc_TypeError, formatted("{}: expected an array of int64 (got format \"{}\")", name, format));
    name_ = name;
  }
  std::size_t size() const noexcept { return view_.bytes().size() / 8; }
  std::uint64_t operator[](std::size_t i) const {
    const std::int64_t value = static_cast<const std::int64_t*>(view_->buf)[i];
    if (value < 0) raise(PyExc_OverflowError, formatted("negative value: {}[{}]", name_, i));
    return static_cast<std::uint64_t>(value);
  }

 private:
  BufferView view_;
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
      raise(PyExc_ValueError, formatted("Size is greater than the size of the buffer: range {}, {} bytes at {} of {}",
                                        i, size[i], at, buffer.size()));
    check_end(offset[i], size[i]);
    gather.request.ranges.push_back({0, memory, offset[i], size[i], buffer.data() + at});
    next = at + size[i];
  }
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
