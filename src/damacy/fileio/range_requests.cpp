// One range of a file, cut into equal parts.
#include "damacy/fileio/file_requests.h"

#include <algorithm>
#include <utility>

#include "damacy/fileio/detail/file_parts.h"
#include "damacy/fileio/detail/slices.h"
#include "damacy/fileio/detail/staged_group.h"

namespace damacy {
namespace {

using detail::RunResult;
using detail::Slice;

class TransferJob final : public IoJob {
 public:
  TransferJob(FileRequest request, std::uint64_t size)
      : file_(std::in_place, request.file), request_(std::move(request)), size_(size) {
    request_.offset += detail::base_of(*request_.file, request_.direction);
    const std::uint64_t task = detail::task_size_of(request_.options.task_size);
    part_ = is_one_part(size, task) ? std::max<std::uint64_t>(size, 1) : task;
    if (request_.memory.size() > 1) {
      std::uint64_t end = 0;
      for (const FileMemory& memory : request_.memory) ends_.push_back(end += memory.size);
    }
    const auto is_host = [](const FileMemory& memory) { return memory.device == nullptr; };
    by_ring_ = request_.direction == Direction::read && std::ranges::all_of(request_.memory, is_host) &&
               detail::reads_by_ring(*request_.file, size);
  }

  std::uint64_t parts() const noexcept override { return size_ / part_ + (size_ % part_ != 0 ? 1 : 0); }
  std::uint64_t range_bytes(std::uint64_t) const noexcept override { return size_; }
  std::uint64_t block_device() const noexcept override { return request_.file->block_device(); }
  Stretch stretch() const noexcept override {
    if (request_.memory.size() != 1 || request_.memory[0].device == nullptr) return {};
    return {request_.file.get(), request_.memory[0].device->device.get(), request_.offset, size_};
  }

  void run(std::uint64_t part, Operation& operation) override {
    const std::uint64_t begin = part * part_;
    if (operation.limit(0) <= begin) return;  // the file ends before it
    const detail::PartClock clock(*request_.file);
    const std::uint64_t size = std::min(part_, size_ - begin);
    if (ends_.empty()) {
      const FileMemory& memory = request_.memory.front();
      const Slice slice{memory.data + begin, size, memory.device.get()};
      settle(begin, size, move(begin, {&slice, 1}, operation), operation);
    } else {
      settle(begin, size, move(begin, slices_of(begin, size), operation), operation);
    }
  }

  void ended() noexcept override { file_.reset(); }

  std::exception_ptr verdict(const Operation& operation) const override {
    if (!request_.options.exact || operation.limit(0) == size_) return nullptr;
    return std::make_exception_ptr(
        FileError::short_read(request_.file->path(), request_.offset, size_, operation.limit(0)));
  }

 private:
  RunResult move(std::uint64_t begin, std::span<const Slice> slices, Operation& operation) const {
    const std::uint64_t offset = request_.offset + begin;
    if (by_ring_) return detail::read_by_ring(*request_.file, offset, slices);
    return detail::move_run(*request_.file, detail::way_of(request_.direction), offset, slices, operation);
  }

  // Of several memories.
  std::vector<Slice> slices_of(std::uint64_t begin, std::uint64_t size) const {
    std::vector<Slice> out;
    auto at = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    while (size > 0) {
      const FileMemory& memory = request_.memory[at];
      const std::uint64_t into = begin - (ends_[at] - memory.size);
      const std::uint64_t some = std::min(memory.size - into, size);
      if (some > 0) out.push_back({memory.data + into, some, memory.device.get()});
      begin += some;
      size -= some;
      ++at;
    }
    return out;
  }

  void settle(std::uint64_t begin, std::uint64_t size, RunResult moved, Operation& operation) const {
    detail::fail_short_write(request_.direction, size, moved);
    if (moved.error != 0) {
      operation.short_at(0, begin + moved.bytes);
      operation.failed(begin, std::make_exception_ptr(detail::part_failed(*request_.file, request_.direction,
                                                                          request_.offset + begin, size, moved)));
    } else if (moved.bytes < size) {
      operation.short_at(0, begin + moved.bytes);
      detail::count_short_read(*request_.file);
    }
  }

  std::optional<FileUse> file_;
  FileRequest request_;
  const std::uint64_t size_;
  std::uint64_t part_;
  std::vector<std::uint64_t> ends_;  // of several memories, counted in bytes of the request
  bool by_ring_ = false;
};

}  // namespace

std::shared_ptr<Operation> begin_request(FileRequest request, bool queue) {
  detail::check_mode(*request.file, request.direction);
  std::uint64_t size = 0;
  bool is_staged = request.direction == Direction::read;
  for (const FileMemory& memory : request.memory) {
    size += memory.size;
    is_staged = is_staged && memory.device != nullptr;
  }
  detail::check_range(request.offset, size);
  is_staged = is_staged && size <= detail::StagedGroup::kMostBytes;
  auto job = std::make_unique<TransferJob>(std::move(request), size);
  return detail::begin_operation(std::move(job), size, queue, is_staged);
}

}  // namespace damacy
