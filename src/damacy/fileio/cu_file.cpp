#include "damacy/fileio/cu_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fcntl.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/fileio/engine_choice.h"

namespace damacy {
namespace {

OneOrMore<std::shared_ptr<Device>> devices_of(const FileMemory& memory) {
  if (memory.device == nullptr) return {};
  return {memory.device->device};
}

// Collects ranges of files. Memory that shares an OnDevice has one number.
class Gather {
 public:
  Gather(Direction direction, std::size_t ranges, const RequestOptions& options) {
    request_.direction = direction;
    request_.ranges.reserve(ranges);
    request_.options = options;
  }
  void add(const std::shared_ptr<File>& file, const FileMemory& memory, std::uint64_t offset) {
    const std::uint32_t in_file = number_of(request_.files, file);
    const std::uint32_t in_memory = memory.device == nullptr ? 0 : number_of(request_.devices, memory.device) + 1;
    request_.ranges.push_back({in_file, in_memory, offset, memory.size, memory.data});
  }
  IOFuture begin() {
    OneOrMore<std::shared_ptr<Device>> devices;
    for (const auto& on : request_.devices) devices.push_back(on->device);
    auto operation = begin_gather(std::move(request_));
    return {std::move(operation), std::move(devices)};
  }

 private:
  template <class Owner>
  static std::uint32_t number_of(std::vector<std::shared_ptr<Owner>>& known, const std::shared_ptr<Owner>& one) {
    if (known.empty() || known.back() != one) {  // what follows each other is mostly of one file and one device
      const auto at = std::ranges::find(known, one);
      if (at != known.end()) return static_cast<std::uint32_t>(at - known.begin());
      known.push_back(one);
    }
    return static_cast<std::uint32_t>(known.size() - 1);
  }

  GatherRequest request_;
};

}  // namespace

CuFile::CuFile(const std::string& path, std::string_view flags, const CuFileOptions& options) {
  const OpenFlags how = OpenFlags::parse(flags);
  const File::Place place{path, options.dir_fd.value_or(AT_FDCWD), options.mode};
  file_ = open_with_engine(options.settings, path, [&] { return File::open(place, how, options.settings); });
}

CuFile CuFile::of_descriptor(int fd, std::string_view flags, const FileOptions& settings) {
  const OpenFlags how = OpenFlags::parse(flags);
  return CuFile(
      open_with_engine(settings, formatted("descriptor {}", fd), [&] { return File::adopt(fd, how, settings); }));
}

CuFile& CuFile::operator=(CuFile&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

CuFile::~CuFile() {
  if (file_ != nullptr) file_->close(/*wait=*/false);
}

std::uint64_t CuFile::transfer(Direction direction, const FileMemory& memory, std::uint64_t file_offset,
                               const RequestOptions& options) {
  const bool one_part = is_one_part(memory.size, options.task_size);
  if (memory.device == nullptr && one_part) {
    const std::span bytes(memory.data, memory.size);
    return direction == Direction::read ? read_now(*file_, bytes, file_offset, options.exact)
                                        : write_now(*file_, bytes, file_offset);
  }
  const auto operation = begin_request({file_, direction, file_offset, {memory}, options}, /*queue=*/!one_part);
  operation->run_all({});
  if (const auto error = operation->error()) std::rethrow_exception(error);
  return operation->count();
}

std::uint64_t CuFile::raw(Direction direction, const FileMemory& memory, std::uint64_t file_offset, bool exact) {
  if (memory.device == nullptr)
    throw Error(Status::inval, "a raw request needs memory of a GPU: see device_memory()", "no-device");
  const RequestOptions one_part{.task_size = std::max<std::uint64_t>(memory.size, 1), .exact = exact};
  const auto operation = begin_request({file_, direction, file_offset, {memory}, one_part}, /*queue=*/false);
  operation->run_all({});
  if (const auto error = operation->error()) std::rethrow_exception(error);
  return operation->count();
}

IOFuture CuFile::begin(Direction direction, const FileMemory& memory, std::uint64_t file_offset,
                       const RequestOptions& options) {
  if (direction == Direction::read && !options.exact && memory.device == nullptr)
    if (const auto count = read_if_resident(*file_, {memory.data, memory.size}, file_offset)) return IOFuture(*count);
  return {begin_request({file_, direction, file_offset, {memory}, options}), devices_of(memory)};
}

IOFuture CuFile::in_stream(Direction direction, const FileMemory& memory, std::uint64_t stream,
                           std::uint64_t file_offset) {
  if (memory.device == nullptr)
    throw Error(Status::inval, "a request in the order of a stream needs memory of a GPU: see device_memory()",
                "no-device");
  return {begin_in_stream({file_, direction, file_offset, {memory}, {}}, stream), devices_of(memory)};
}

IOFuture CuFile::gather(Direction direction, std::span<const FileRange> ranges, const RequestOptions& options) {
  Gather gather(direction, ranges.size(), options);
  for (const FileRange& range : ranges) gather.add(file_, range.memory, range.file_offset);
  return gather.begin();
}

IOFuture CuFile::packed(Direction direction, const FileMemory& memory, std::span<const std::uint64_t> sizes,
                        std::span<const std::uint64_t> file_offsets, std::span<const std::uint64_t> memory_offsets,
                        const RequestOptions& options) {
  if (file_offsets.size() != sizes.size() || (!memory_offsets.empty() && memory_offsets.size() != sizes.size()))
    throw Error(Status::inval,
                formatted("{} sizes, {} offsets in the file and {} in memory: the lists differ in length", sizes.size(),
                          file_offsets.size(), memory_offsets.size()),
                "arguments");
  Gather gather(direction, sizes.size(), options);
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::uint64_t at = memory_offsets.empty() ? next : memory_offsets[i];
    gather.add(file_, part_of(memory, at, sizes[i]), file_offsets[i]);
    next = at + sizes[i];
  }
  return gather.begin();
}

std::uint64_t CuFile::read(const FileMemory& memory, std::uint64_t file_offset, const RequestOptions& options) {
  return transfer(Direction::read, memory, file_offset, options);
}

std::uint64_t CuFile::write(const FileMemory& memory, std::uint64_t file_offset, const RequestOptions& options) {
  return transfer(Direction::write, memory, file_offset, options);
}

std::uint64_t CuFile::raw_read(const FileMemory& memory, std::uint64_t file_offset, bool exact) {
  return raw(Direction::read, memory, file_offset, exact);
}

std::uint64_t CuFile::raw_write(const FileMemory& memory, std::uint64_t file_offset) {
  return raw(Direction::write, memory, file_offset, /*exact=*/false);
}

IOFuture CuFile::pread(const FileMemory& memory, std::uint64_t file_offset, const RequestOptions& options) {
  return begin(Direction::read, memory, file_offset, options);
}

IOFuture CuFile::pwrite(const FileMemory& memory, std::uint64_t file_offset, const RequestOptions& options) {
  return begin(Direction::write, memory, file_offset, options);
}

IOFuture CuFile::preadv(std::span<const FileRange> ranges, const RequestOptions& options) {
  return gather(Direction::read, ranges, options);
}

IOFuture CuFile::pwritev(std::span<const FileRange> ranges, const RequestOptions& options) {
  return gather(Direction::write, ranges, options);
}

IOFuture CuFile::preadv_packed(const FileMemory& memory, std::span<const std::uint64_t> sizes,
                               std::span<const std::uint64_t> file_offsets,
                               std::span<const std::uint64_t> memory_offsets, const RequestOptions& options) {
  return packed(Direction::read, memory, sizes, file_offsets, memory_offsets, options);
}

IOFuture CuFile::pwritev_packed(const FileMemory& memory, std::span<const std::uint64_t> sizes,
                                std::span<const std::uint64_t> file_offsets,
                                std::span<const std::uint64_t> memory_offsets, const RequestOptions& options) {
  return packed(Direction::write, memory, sizes, file_offsets, memory_offsets, options);
}

IOFuture CuFile::read_async(const FileMemory& memory, std::uint64_t stream, std::uint64_t file_offset) {
  return in_stream(Direction::read, memory, stream, file_offset);
}

IOFuture CuFile::write_async(const FileMemory& memory, std::uint64_t stream, std::uint64_t file_offset) {
  return in_stream(Direction::write, memory, stream, file_offset);
}

void CuFile::close(bool wait) noexcept {
  file_->close(wait);
}

IOFuture preadv_many(std::span<const FileRangeOf> ranges, const RequestOptions& options) {
  Gather gather(Direction::read, ranges.size(), options);
  for (const FileRangeOf& range : ranges) gather.add(range.file->file(), range.memory, range.file_offset);
  return gather.begin();
}

void memory_register(const FileMemory& memory) {
  register_with_cufile(memory);
}

void memory_deregister(const FileMemory& memory) {
  deregister_from_cufile(memory);
}

}  // namespace damacy
