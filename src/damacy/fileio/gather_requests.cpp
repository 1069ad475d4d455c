// Many ranges of files in one request. Neighbours are merged into runs, and several runs make a part.
#include "damacy/fileio/file_requests.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <tuple>
#include <utility>

#include "damacy/core/coalesce.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/fileio/detail/file_parts.h"
#include "damacy/fileio/detail/slices.h"
#include "damacy/fileio/detail/uring.h"
#include "damacy/fileio/engine_choice.h"

namespace damacy {
namespace {

using detail::RunResult;
using detail::Slice;
using detail::Way;

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
    const detail::PartClock clock(file);
    if (cuts_[run.first].memory != 0) return run_staged(file, group, operation);
    if (group.count > 1) return run_in_ring(file, group, operation);
    const std::vector<Slice> slices = slices_of(run);
    const std::uint64_t offset = cuts_[run.first].offset;
    const RunResult moved = detail::move_run(file, detail::way_of(request_.direction), offset, slices, operation);
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
    std::vector<std::vector<Slice>> slices;
    std::vector<detail::DeviceRun> device_runs;
    for (std::size_t r = group.first; r < group.first + group.count; ++r) {
      slices.push_back(slices_of(runs_[r]));
      device_runs.push_back({cuts_[runs_[r].first].offset, slices.back()});
    }
    detail::move_staged(file, detail::way_of(request_.direction), device_runs, operation);
    for (std::size_t r = 0; r < group.count; ++r) {
      const Run& run = runs_[group.first + r];
      for (std::size_t i = run.first; i < run.first + run.count; ++i)
        settle(file, cuts_[i], device_runs[r].offset, device_runs[r].result, operation);
      if (device_runs[r].result.error != 0) return;
    }
  }

  // All runs of a group under way at once. What the ring leaves short goes on by plain calls.
  void run_in_ring(File& file, const Run& group, Operation& operation) {
    const Way way = detail::way_of(request_.direction);
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
    const std::uint64_t largest = std::max(detail::task_size_of(request_.options.task_size), Limits::merged_read_bytes);
    cuts_.reserve(request_.ranges.size());
    for (std::uint64_t r = 0; r < request_.ranges.size(); ++r) {
      const GatherRange& range = request_.ranges[r];
      const std::uint64_t base = detail::base_of(*request_.files[range.file], request_.direction);
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
    moved.bytes = got;
    detail::fail_short_write(request_.direction, c.size, moved);
    if (moved.error == 0) return detail::count_short_read(file);
    FileError error = detail::part_failed(file, request_.direction, c.offset, c.size, moved);
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
                  formatted("ranges to write overlap in the file: {} bytes at {}, and {} at {}", sorted[i - 1]->size,
                            sorted[i - 1]->offset, sorted[i]->size, sorted[i]->offset),
                  "overlap");
}

}  // namespace

std::shared_ptr<Operation> begin_gather(GatherRequest request, bool queue) {
  for (const auto& file : request.files) detail::check_mode(*file, request.direction);
  for (const GatherRange& range : request.ranges) detail::check_range(range.offset, range.size);
  if (request.direction == Direction::write) check_disjoint(request);
  for (std::size_t i = 0; i < request.streams.size(); ++i)
    request.devices[i] = after_stream({nullptr, 0, request.devices[i]}, request.streams[i]).device;
  auto job = std::make_unique<GatherJob>(std::move(request));
  const std::uint64_t bytes = job->bytes();
  return detail::begin_operation(std::move(job), bytes, queue);
}

}  // namespace damacy
