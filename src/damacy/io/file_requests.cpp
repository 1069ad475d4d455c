// Cutting requests into parts, and what each part reports.
#include "damacy/io/file_requests.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <tuple>
#include <utility>

#include <unistd.h>

#include "damacy/core/text.h"
#include "damacy/io/coalesce.h"
#include "damacy/io/detail/slices.h"
#include "damacy/io/detail/uring.h"
#include "damacy/io/engine_choice.h"
#include "damacy/io/file_error.h"
#include "damacy/io/io_pool.h"

namespace damacy {
namespace {

using detail::RunResult;
using detail::Slice;
using detail::Way;

constexpr std::uint64_t kInlineBytes = 64 << 10;
constexpr std::uint64_t kManyThreadsFrom = 8 << 20;

Way way_of(Direction direction) noexcept {
  return direction == Direction::read ? Way::read : Way::write;
}

std::uint64_t page_size() noexcept {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::uint64_t task_size_of(std::uint64_t asked) noexcept {
  return asked != 0 ? asked : io_settings().task_size;
}

std::uint64_t helpers_for(std::uint64_t bytes) noexcept {
  const IoSettings& now = io_settings();
  if (now.num_threads_set || bytes <= kManyThreadsFrom) return now.num_threads;
  return std::max(now.num_threads, now.auto_threads);
}

void check_mode(const File& file, Direction direction) {
  if (file.closed()) throw FileError::closed(file.path());
  if (direction == Direction::read)
    file.check_readable();
  else
    file.check_writable();
}

std::uint64_t base_of(const File& file, Direction direction) noexcept {
  return direction == Direction::write ? file.append_base() : 0;
}

FileError failure(const File& file, Direction direction, std::uint64_t offset, std::uint64_t size,
                  const RunResult& moved) {
  return FileError::failed(direction == Direction::read ? "pread" : "pwrite", moved.error, file.path(), offset, size,
                           moved.bytes, kIoWayNames[static_cast<std::size_t>(moved.way)]);
}

// A write that the system ended without an error: the device is full, or the file may not grow.
int short_write_errno() noexcept {
  return ENOSPC;
}

class PartClock {
 public:
  explicit PartClock(File& file) noexcept : file_(file) {}
  PartClock(const PartClock&) = delete;
  PartClock& operator=(const PartClock&) = delete;
  ~PartClock() {
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began_);
    for (IoCounters* counters : {&file_.counters(), &process_counters()})
      counters->part_took(static_cast<std::uint64_t>(took.count()));
  }

 private:
  File& file_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

void count_short_read(File& file) noexcept {
  for (IoCounters* counters : {&file.counters(), &process_counters()}) IoCounters::add(counters->short_reads, 1);
}

// One range of a file in equal parts.
class TransferJob final : public IoJob {
 public:
  TransferJob(FileRequest request, std::uint64_t size)
      : file_(std::in_place, request.file), request_(std::move(request)), size_(size) {
    request_.offset += base_of(*request_.file, request_.direction);
    const std::uint64_t task = task_size_of(request_.options.task_size);
    part_ = size <= task || size <= page_size() ? std::max<std::uint64_t>(size, 1) : task;
    std::uint64_t end = 0;
    for (const FileMemory& memory : request_.memory) ends_.push_back(end += memory.size);
    const auto is_host = [](const FileMemory& memory) { return memory.device == nullptr; };
    by_ring_ = request_.direction == Direction::read && std::ranges::all_of(request_.memory, is_host) &&
               detail::reads_by_ring(*request_.file, size);
  }

  std::uint64_t parts() const noexcept override { return size_ / part_ + (size_ % part_ != 0 ? 1 : 0); }
  std::uint64_t range_bytes(std::uint64_t) const noexcept override { return size_; }
  std::uint64_t block_device() const noexcept override { return request_.file->block_device(); }

  void run(std::uint64_t part, Operation& operation) override {
    const std::uint64_t begin = part * part_;
    if (operation.limit(0) <= begin) return;  // the file ends before it
    const PartClock clock(*request_.file);
    const std::uint64_t size = std::min(part_, size_ - begin);
    const std::vector<Slice> slices = slices_of(begin, size);
    const std::uint64_t offset = request_.offset + begin;
    const RunResult moved =
        by_ring_ ? detail::read_by_ring(*request_.file, offset, slices)
                 : detail::move_run(*request_.file, way_of(request_.direction), offset, slices, operation);
    settle(begin, size, moved, operation);
  }

  void ended() noexcept override { file_.reset(); }

  std::exception_ptr verdict(const Operation& operation) const override {
    if (!request_.options.exact || operation.limit(0) == size_) return nullptr;
    return std::make_exception_ptr(
        FileError::short_read(request_.file->path(), request_.offset, size_, operation.limit(0)));
  }

 private:
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
    if (moved.error == 0 && moved.bytes < size && request_.direction == Direction::write)
      moved.error = short_write_errno();
    if (moved.error != 0) {
      operation.short_at(0, begin + moved.bytes);
      operation.failed(begin, std::make_exception_ptr(
                                  failure(*request_.file, request_.direction, request_.offset + begin, size, moved)));
    } else if (moved.bytes < size) {
      operation.short_at(0, begin + moved.bytes);
      count_short_read(*request_.file);
    }
  }

  std::optional<FileUse> file_;
  FileRequest request_;
  const std::uint64_t size_;
  std::uint64_t part_;
  std::vector<std::uint64_t> ends_;  // of each memory, counted in bytes of the request
  bool by_ring_ = false;
};

// Ranges of files, neighbours merged: a part is one system call's worth.
class GatherJob final : public IoJob {
 public:
  explicit GatherJob(GatherRequest request) : request_(std::move(request)) {
    for (const auto& file : request_.files) uses_.emplace_back(file);
    cut();
    merge();
    order_by_destination();
    group();
  }

  std::uint64_t parts() const noexcept override { return groups_.size(); }
  std::uint64_t ranges() const noexcept override { return request_.ranges.size(); }
  std::uint64_t range_bytes(std::uint64_t range) const noexcept override { return request_.ranges[range].size; }
  std::uint64_t block_device() const noexcept override {
    return request_.files.empty() ? 0 : request_.files[0]->block_device();
  }
  std::uint64_t bytes() const noexcept { return bytes_; }

  void run(std::uint64_t part, Operation& operation) override {
    const Run& group = groups_[part];
    const Run& run = runs_[group.first];
    File& file = *request_.files[cuts_[run.first].file];
    const PartClock clock(file);
    if (cuts_[run.first].memory != 0) return run_staged(file, group, operation);
    if (group.count > 1) return run_in_ring(file, group, operation);
    const std::vector<Slice> slices = slices_of(run);
    const std::uint64_t offset = cuts_[run.first].offset;
    const RunResult moved = detail::move_run(file, way_of(request_.direction), offset, slices, operation);
    for (std::size_t i = run.first; i < run.first + run.count; ++i) settle(file, cuts_[i], offset, moved, operation);
  }

  void ended() noexcept override { uses_.clear(); }

  std::exception_ptr verdict(const Operation& operation) const override {
    if (!request_.options.exact) return nullptr;
    for (std::uint64_t r = 0; r < ranges(); ++r) {
      const GatherRange& range = request_.ranges[r];
      if (operation.limit(r) == range.size) continue;
      FileError error =
          FileError::short_read(request_.files[range.file]->path(), range.offset, range.size, operation.limit(r));
      error.range_index = r;
      return std::make_exception_ptr(std::move(error));
    }
    return nullptr;
  }

 private:
  // A range, or a piece of a large one.
  struct Cut {
    std::uint32_t file;
    std::uint32_t memory;
    std::uint64_t offset;  // in the file
    std::uint64_t size;
    std::byte* data;
    std::uint64_t range;
    std::uint64_t into;  // bytes of the range before it
  };
  struct Run {
    std::size_t first;
    std::size_t count;
  };

  // One batch of copies for all runs of a group.
  void run_staged(File& file, const Run& group, Operation& operation) {
    std::vector<detail::DeviceRun> device_runs;
    for (std::size_t r = group.first; r < group.first + group.count; ++r)
      device_runs.push_back({cuts_[runs_[r].first].offset, slices_of(runs_[r])});
    const auto results = detail::move_staged(file, way_of(request_.direction), device_runs, operation);
    for (std::size_t r = 0; r < group.count; ++r) {
      const Run& run = runs_[group.first + r];
      for (std::size_t i = run.first; i < run.first + run.count; ++i)
        settle(file, cuts_[i], device_runs[r].offset, results[r], operation);
      if (results[r].error != 0) return;
    }
  }

  // All runs of a group under way at once. What the ring leaves short goes on by plain calls.
  void run_in_ring(File& file, const Run& group, Operation& operation) {
    const Way way = way_of(request_.direction);
    std::vector<std::vector<Slice>> slices;
    std::vector<std::vector<iovec>> vectors;
    std::vector<detail::Uring::Call> calls;
    for (std::size_t r = group.first; r < group.first + group.count; ++r) {
      slices.push_back(slices_of(runs_[r]));
      vectors.push_back(detail::vectors_of(slices.back()));
      calls.push_back({file.descriptor(), way == Way::write, cuts_[runs_[r].first].offset, vectors.back(), -ECANCELED});
    }
    if (detail::Uring* ring = detail::Uring::of_this_thread()) ring->run(calls);
    detail::Moved by_ring;
    for (std::size_t r = 0; r < group.count; ++r) {
      const Run& run = runs_[group.first + r];
      RunResult moved{.bytes = 0, .error = 0, .way = IoWay::io_uring};
      if (calls[r].result == static_cast<std::int64_t>(bytes_of(run))) {
        moved.bytes = bytes_of(run);
        by_ring.bytes += moved.bytes;
        ++by_ring.calls;
      } else {
        moved = detail::move_host(file, way, calls[r].offset, slices[r], IoWay::pread);
      }
      for (std::size_t i = run.first; i < run.first + run.count; ++i)
        settle(file, cuts_[i], calls[r].offset, moved, operation);
    }
    detail::count_moved(file, IoWay::io_uring, way, by_ring);
  }

  bool uses_ring(const File& file) const {
    return file.engine() != EngineChoice::pread && file.has_real_calls() && runs_.size() > 1 &&
           !file.wants_direct(request_.direction == Direction::write) && probe_uring().usable;
  }

  void cut() {
    const std::uint64_t largest = std::max(task_size_of(request_.options.task_size), Limits::merged_read_bytes);
    cuts_.reserve(request_.ranges.size());
    for (std::uint64_t r = 0; r < request_.ranges.size(); ++r) {
      const GatherRange& range = request_.ranges[r];
      const std::uint64_t base = base_of(*request_.files[range.file], request_.direction);
      bytes_ += range.size;
      for (std::uint64_t into = 0; into < range.size; into += largest)
        cuts_.push_back({range.file, range.memory, base + range.offset + into, std::min(largest, range.size - into),
                         range.data + into, r, into});
    }
    std::stable_sort(cuts_.begin(), cuts_.end(), [](const Cut& a, const Cut& b) {
      return a.file != b.file ? a.file < b.file : a.offset < b.offset;
    });
  }

  // Reads are merged over gaps, writes when they touch; what overlaps is a run of its own.
  void merge() {
    const std::uint64_t gap = request_.direction == Direction::read ? io_settings().coalesce_gap : 0;
    std::vector<Piece> pieces;
    for (std::size_t begin = 0; begin < cuts_.size();) {
      std::size_t end = begin;
      pieces.clear();
      for (; end < cuts_.size() && cuts_[end].file == cuts_[begin].file; ++end)
        pieces.push_back({cuts_[end].offset, cuts_[end].size, end});
      for (const MergedRead& read : coalesce(pieces, gap)) split_at_overlaps(begin + read.first, read.count);
      begin = end;
    }
  }

  // Runs for a device in the order of their memory, where that makes neighbours of them: a slot then goes up in one
  // copy, not in one a range. Else they stay in the order of the file.
  void order_by_destination() {
    const auto host_ends = std::stable_partition(runs_.begin(), runs_.end(),
                                                 [this](const Run& run) { return cuts_[run.first].memory == 0; });
    std::vector<Run> ordered(host_ends, runs_.end());
    std::stable_sort(ordered.begin(), ordered.end(), [this](const Run& a, const Run& b) {
      const Cut &x = cuts_[a.first], &y = cuts_[b.first];
      return std::tie(x.file, x.memory, x.data) < std::tie(y.file, y.memory, y.data);
    });
    std::size_t touching = 0;
    for (std::size_t r = 1; r < ordered.size(); ++r) {
      const Run& before = ordered[r - 1];
      const Cut& last = cuts_[before.first + before.count - 1];
      touching += last.data + last.size == cuts_[ordered[r].first].data ? 1 : 0;
    }
    if (2 * touching >= ordered.size()) std::copy(ordered.begin(), ordered.end(), host_ends);
  }

  std::uint64_t bytes_of(const Run& run) const noexcept {
    const Cut& last = cuts_[run.first + run.count - 1];
    return last.offset + last.size - cuts_[run.first].offset;
  }

  // Host memory: a run is a part, or as many as a ring has under way. Device memory: as many runs as fill a slot of a
  // staging block.
  void group() {
    const std::uint64_t slot = std::max<std::uint64_t>(io_settings().bounce_buffer_size / 4, 1);
    const std::uint64_t depth = io_settings().queue_depth;
    std::uint64_t bytes = 0;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const Cut& c = cuts_[runs_[r].first];
      const bool same =
          r > 0 && cuts_[runs_[r - 1].first].memory == c.memory && cuts_[runs_[r - 1].first].file == c.file;
      bytes += bytes_of(runs_[r]);
      const bool fits = c.memory != 0 ? bytes <= slot
                                      : same && bytes <= kRingBytes && groups_.back().count < depth &&
                                            uses_ring(*request_.files[c.file]);
      if (same && fits) {
        ++groups_.back().count;
      } else {
        groups_.push_back({r, 1});
        bytes = bytes_of(runs_[r]);
      }
    }
  }

  void split_at_overlaps(std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      const bool goes_on = i > first && cuts_[i].offset >= cuts_[i - 1].offset + cuts_[i - 1].size &&
                           cuts_[i].memory == cuts_[i - 1].memory;
      if (goes_on)
        ++runs_.back().count;
      else
        runs_.push_back({i, 1});
    }
  }

  std::vector<Slice> slices_of(const Run& run) const {
    std::vector<Slice> out;
    out.reserve(run.count);
    std::uint64_t at = cuts_[run.first].offset;
    for (std::size_t i = run.first; i < run.first + run.count; ++i) {
      const Cut& c = cuts_[i];
      OnDevice* device = c.memory == 0 ? nullptr : request_.devices[c.memory - 1].get();
      if (c.offset > at) out.push_back({nullptr, c.offset - at, device});
      out.push_back({c.data, c.size, device});
      at = c.offset + c.size;
    }
    return out;
  }

  void settle(File& file, const Cut& c, std::uint64_t offset, RunResult moved, Operation& operation) const {
    const std::uint64_t begin = c.offset - offset;
    const std::uint64_t got = moved.bytes <= begin ? 0 : std::min(c.size, moved.bytes - begin);
    if (got == c.size) return;
    operation.short_at(c.range, c.into + got);
    if (moved.error == 0 && request_.direction == Direction::write) moved.error = short_write_errno();
    if (moved.error == 0) return count_short_read(file);
    moved.bytes = got;
    FileError error = failure(file, request_.direction, c.offset, c.size, moved);
    error.range_index = c.range;
    operation.failed(c.range, std::make_exception_ptr(std::move(error)));
  }

  static constexpr std::uint64_t kRingBytes = 16 << 20;  // a part of a gather in host memory

  GatherRequest request_;
  std::deque<FileUse> uses_;
  std::vector<Cut> cuts_;  // by file and offset
  std::vector<Run> runs_;
  std::vector<Run> groups_;  // of runs_: the parts
  std::uint64_t bytes_ = 0;
};

void check_range(std::uint64_t offset, std::uint64_t size) {
  if (offset > File::kMaxOffset || size > File::kMaxOffset - offset)
    throw Error(Status::inval, text("file_offset + size is above 2^63 - 1: ", offset, " + ", size), "overflow");
}

void check_disjoint(const GatherRequest& request) {
  std::vector<const GatherRange*> sorted;
  for (const GatherRange& range : request.ranges)
    if (range.size > 0) sorted.push_back(&range);
  std::sort(sorted.begin(), sorted.end(), [](const GatherRange* a, const GatherRange* b) {
    return a->file != b->file ? a->file < b->file : a->offset < b->offset;
  });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->file == sorted[i - 1]->file && sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->size)
      throw Error(Status::inval,
                  text("ranges to write overlap in the file: ", sorted[i - 1]->size, " bytes at ",
                       sorted[i - 1]->offset, ", and ", sorted[i]->size, " at ", sorted[i]->offset),
                  "overlap");
}

std::shared_ptr<Operation> begin(std::unique_ptr<IoJob> job, std::uint64_t bytes, bool queue) {
  auto operation = std::make_shared<Operation>(std::move(job));
  operation->helpers = helpers_for(bytes);
  if (!queue || !operation->has_parts()) return operation;
  operation->when_ended = [](Operation& ended) { IoPool::process().forget(ended); };
  IoPool::process().submit(operation);
  return operation;
}

std::uint64_t finish_now(File& file, Direction direction, std::uint64_t offset, std::uint64_t size, RunResult moved,
                         bool exact) {
  if (moved.error == 0 && moved.bytes < size && direction == Direction::write) moved.error = short_write_errno();
  if (moved.error != 0) throw failure(file, direction, offset, size, moved);
  if (moved.bytes == size) return size;
  count_short_read(file);
  if (exact) throw FileError::short_read(file.path(), offset, size, moved.bytes);
  return moved.bytes;
}

// Leaves when it goes out of scope, without the count of a shared_ptr.
class BriefUse {
 public:
  explicit BriefUse(File& file) : file_(file) { file_.begin(); }
  BriefUse(const BriefUse&) = delete;
  BriefUse& operator=(const BriefUse&) = delete;
  ~BriefUse() { file_.end(); }

 private:
  File& file_;
};

}  // namespace

bool is_one_part(std::uint64_t size, std::uint64_t task_size) noexcept {
  return size <= task_size_of(task_size) || size <= page_size();
}

std::uint64_t read_now(File& file, std::span<std::byte> dst, std::uint64_t offset, bool exact) {
  check_mode(file, Direction::read);
  check_range(offset, dst.size());
  if (dst.empty()) return 0;
  const BriefUse use(file);
  const PartClock clock(file);
  const Slice slice{dst.data(), dst.size(), nullptr};
  const IoWay way = dst.size() <= kInlineBytes ? IoWay::inline_ : IoWay::pread;
  const RunResult moved = detail::reads_by_ring(file, dst.size())
                              ? detail::read_by_ring(file, offset, {&slice, 1})
                              : detail::move_host(file, Way::read, offset, {&slice, 1}, way);
  return finish_now(file, Direction::read, offset, dst.size(), moved, exact);
}

std::uint64_t write_now(File& file, std::span<const std::byte> src, std::uint64_t offset) {
  check_mode(file, Direction::write);
  check_range(offset, src.size());
  if (src.empty()) return 0;
  const BriefUse use(file);
  const PartClock clock(file);
  const Slice slice{const_cast<std::byte*>(src.data()), src.size(), nullptr};  // only read from
  const IoWay way = src.size() <= kInlineBytes ? IoWay::inline_ : IoWay::pread;
  return finish_now(file, Direction::write, offset, src.size(),
                    detail::move_host(file, Way::write, offset + file.append_base(), {&slice, 1}, way), false);
}

std::optional<std::uint64_t> read_if_resident(File& file, std::span<std::byte> dst, std::uint64_t offset) {
  if (dst.size() > kInlineBytes || file.wants_direct(/*writing=*/false)) return std::nullopt;
  check_mode(file, Direction::read);
  if (dst.empty()) return 0;
  const BriefUse use(file);
  const iovec one{dst.data(), dst.size()};
  const ssize_t n = file.calls().preadv2(file.descriptor(), &one, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  const bool whole = n == static_cast<ssize_t>(dst.size());
  for (IoCounters* counters : {&file.counters(), &process_counters()}) {
    IoCounters::add(whole ? counters->resident_bytes : counters->cold_bytes, dst.size());
    if (whole) counters->moved(IoWay::inline_, /*writing=*/false, dst.size(), 1);
    if (whole) IoCounters::add(counters->parts, 1);
  }
  if (!whole) return std::nullopt;
  return dst.size();
}

std::shared_ptr<Operation> begin_request(FileRequest request, bool queue) {
  check_mode(*request.file, request.direction);
  std::uint64_t size = 0;
  for (const FileMemory& memory : request.memory) size += memory.size;
  check_range(request.offset, size);
  return begin(std::make_unique<TransferJob>(std::move(request), size), size, queue);
}

std::shared_ptr<Operation> begin_gather(GatherRequest request, bool queue) {
  for (const auto& file : request.files) check_mode(*file, request.direction);
  for (const GatherRange& range : request.ranges) check_range(range.offset, range.size);
  if (request.direction == Direction::write) check_disjoint(request);
  auto job = std::make_unique<GatherJob>(std::move(request));
  const std::uint64_t bytes = job->bytes();
  return begin(std::move(job), bytes, queue);
}

}  // namespace damacy
