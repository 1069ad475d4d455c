#include "damacy/fileio/detail/file_parts.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/fileio/detail/count_batch.h"
#include "damacy/fileio/io_pool.h"

namespace damacy {
namespace {

constexpr std::uint64_t kManyThreadsFrom = 8 << 20;

std::uint64_t page_size() noexcept {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::uint64_t helpers_for(std::uint64_t bytes) noexcept {
  const IoSettings& now = io_settings();
  if (now.num_threads_set || bytes <= kManyThreadsFrom) return now.num_threads;
  return std::max(now.num_threads, now.auto_threads);
}

}  // namespace

namespace detail {

std::uint64_t task_size_of(std::uint64_t asked) noexcept {
  return asked != 0 ? asked : io_settings().task_size;
}

void check_mode(const File& file, Direction direction) {
  if (file.closed()) throw FileError::closed(file.path());
  if (direction == Direction::read)
    file.check_readable();
  else
    file.check_writable();
}

void check_range(std::uint64_t offset, std::uint64_t size) {
  if (offset > File::kMaxOffset || size > File::kMaxOffset - offset)
    throw Error(Status::inval, formatted("file_offset + size is above 2^63 - 1: {} + {}", offset, size), "overflow");
}

std::uint64_t base_of(const File& file, Direction direction) noexcept {
  return direction == Direction::write ? file.append_base() : 0;
}

// The device is full, or the file may not grow.
void fail_short_write(Direction direction, std::uint64_t wanted, RunResult& moved) noexcept {
  if (moved.error == 0 && moved.bytes < wanted && direction == Direction::write) moved.error = ENOSPC;
}

FileError part_failed(const File& file, Direction direction, std::uint64_t offset, std::uint64_t size,
                      const RunResult& moved) {
  return FileError::failed(direction == Direction::read ? "pread" : "pwrite", moved.error, file.path(), offset, size,
                           moved.bytes, kIoWayNames[static_cast<std::size_t>(moved.way)]);
}

void count_short_read(File& file) noexcept {
  for (IoCounters* counters : {&file.counters(), &process_counters()}) IoCounters::add(counters->short_reads, 1);
}

PartClock::~PartClock() {
  if (!counts_) return;
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began_);
  const auto microseconds = static_cast<std::uint64_t>(took.count());
  if (CountBatch* const batch = CountBatch::current(); batch != nullptr) {
    batch->part_took(file_, microseconds);
    return;
  }
  for (IoCounters* counters : {&file_.counters(), &process_counters()}) counters->part_took(microseconds);
}

std::shared_ptr<Operation> begin_operation(std::unique_ptr<IoJob> job, std::uint64_t bytes, bool queue, bool is_small) {
  auto operation = std::make_shared<Operation>(std::move(job));
  operation->is_small = is_small && operation->job().parts() == 1;
  operation->helpers = helpers_for(bytes);
  if (!queue || !operation->has_parts()) return operation;
  operation->when_ended = [](Operation& ended) { IoPool::process().forget(ended); };
  if (operation->is_small) operation->help = [](Operation& awaited) { return IoPool::process().help(awaited); };
  IoPool::process().submit(operation);
  return operation;
}

}  // namespace detail

bool is_one_part(std::uint64_t size, std::uint64_t task_size) noexcept {
  return size <= detail::task_size_of(task_size) || size <= page_size();
}

}  // namespace damacy
