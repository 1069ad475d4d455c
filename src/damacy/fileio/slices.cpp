// Host memory: vectors for one system call, direct middles, gaps into a scrap of memory.
#include "damacy/fileio/detail/slices.h"

#include <algorithm>
#include <array>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "damacy/fileio/detail/count_batch.h"
#include "damacy/fileio/detail/uring.h"
#include "damacy/fileio/engine_choice.h"

namespace damacy::detail {
namespace {

constexpr std::size_t kGapScrap = 64 << 10;
constexpr std::size_t kFewSlices = 16;

std::uint64_t page_size() noexcept {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::byte* scrap() {
  thread_local std::array<std::byte, kGapScrap> bytes;
  return bytes.data();
}

void add_vectors(std::vector<iovec>& vectors, const Slice& slice) {
  if (slice.data != nullptr) {
    if (slice.size > 0) vectors.push_back({slice.data, slice.size});
    return;
  }
  for (std::uint64_t left = slice.size; left > 0;) {
    const std::uint64_t size = std::min<std::uint64_t>(left, kGapScrap);
    vectors.push_back({scrap(), size});
    left -= size;
  }
}

struct Middle {
  std::uint64_t begin = 0;  // bytes of the run before it
  std::uint64_t size = 0;
};

// What of one stretch of memory may go direct: file offset, size and address are multiples of what the file asks for.
// Writes go direct by whole pages: a neighbour's buffered edge in the same page would be written back over them.
Middle direct_middle(const File& file, Way way, std::uint64_t offset, const Slice& slice) {
  const std::uint64_t least = way == Way::write ? page_size() : 1;
  const std::uint64_t unit = std::max<std::uint64_t>(file.direct_offset_alignment(), least);
  const std::uint64_t begin = (unit - offset % unit) % unit;
  if (begin >= slice.size) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(slice.data) + begin;
  if (address % file.direct_memory_alignment() != 0) return {};
  return {begin, (slice.size - begin) / unit * unit};
}

// Reading, the kernel may fill the unit that a file ends in to its end: only units that the file has whole go direct.
Middle within_file(const File& file, std::uint64_t offset, Middle middle) {
  struct ::stat found{};
  if (::fstat(file.descriptor(), &found) != 0 || !S_ISREG(found.st_mode)) return middle;
  const auto end = static_cast<std::uint64_t>(found.st_size);
  const std::uint64_t begin = offset + middle.begin;
  const std::uint64_t unit = file.direct_offset_alignment();
  middle.size = end > begin ? std::min(middle.size, (end - begin) / unit * unit) : 0;
  return middle;
}

bool refuses_direct(int number) noexcept {
  return number == EINVAL || number == ENOTSUP;
}

RunResult move_span(File& file, int fd, Way way, std::uint64_t offset, std::byte* data, std::uint64_t size, IoWay as) {
  const iovec one{data, size};
  const Moved moved = move_vectors(file.calls(), fd, way, {&one, 1}, offset);
  count_moved(file, as, way, moved);
  return {moved.bytes, moved.error, as};
}

// Ends where the kernel gave no whole unit: that is the end of the file, and going on from there is refused.
RunResult move_middle(File& file, int fd, Way way, std::uint64_t offset, std::byte* data, std::uint64_t size) {
  const std::uint64_t unit = file.direct_offset_alignment();
  Moved moved;
  move_on(file.calls(), size, moved, [&](std::uint64_t done) -> ssize_t {
    if (done % unit != 0) return 0;
    const iovec one{data + done, std::min(size - done, kBytesPerCall / unit * unit)};
    const auto at = static_cast<off_t>(offset + done);
    return way == Way::read ? file.calls().preadv2(fd, &one, 1, at, 0) : file.calls().pwritev2(fd, &one, 1, at, 0);
  });
  count_moved(file, IoWay::direct, way, moved);
  return {moved.bytes, moved.error, IoWay::direct};
}

// Buffered edges around a direct middle.
RunResult move_direct(File& file, Way way, std::uint64_t offset, const Slice& slice, IoWay as) {
  const int direct_fd = file.direct_descriptor();  // open until the file closes, even if direct I/O is disabled
  Middle middle = direct_fd < 0 ? Middle{} : direct_middle(file, way, offset, slice);
  if (way == Way::read && middle.size > 0) middle = within_file(file, offset, middle);
  if (middle.size == 0) return move_span(file, file.descriptor(), way, offset, slice.data, slice.size, as);
  RunResult all{.bytes = 0, .error = 0, .way = as};
  const auto add = [&](std::uint64_t size, bool direct) {
    const std::uint64_t at = offset + all.bytes;
    std::byte* data = slice.data + all.bytes;
    const RunResult some = direct ? move_middle(file, direct_fd, way, at, data, size)
                                  : move_span(file, file.descriptor(), way, at, data, size, as);
    all.bytes += some.bytes;
    all.error = some.error;
    all.way = some.way;
    return some.error == 0 && some.bytes == size;
  };
  if (middle.begin > 0 && !add(middle.begin, /*direct=*/false)) return all;
  if (!add(middle.size, /*direct=*/true)) {
    if (all.error != 0 && !refuses_direct(all.error)) return all;
    if (all.error != 0) file.give_up_direct("O_DIRECT: a transfer was refused");
  }
  // What the direct descriptor stopped short of (an unaligned end of file), and the edge.
  if (all.bytes < slice.size) add(slice.size - all.bytes, /*direct=*/false);
  return all;
}

}  // namespace

void count_moved(File& file, IoWay way, Way direction, const Moved& moved) {
  if (CountBatch* const batch = CountBatch::current(); batch != nullptr && direction == Way::read)
    return batch->read(file, way, moved);
  for (IoCounters* counters : {&file.counters(), &process_counters()}) {
    counters->moved(way, direction == Way::write, moved.bytes, moved.calls);
    if (moved.retries > 0) IoCounters::add(counters->retries, moved.retries);
  }
}

std::vector<iovec> vectors_of(std::span<const Slice> slices) {
  std::vector<iovec> vectors;
  vectors.reserve(std::max(slices.size(), kFewSlices));
  for (const Slice& slice : slices) add_vectors(vectors, slice);
  return vectors;
}

RunResult move_host(File& file, Way way, std::uint64_t offset, std::span<const Slice> slices, IoWay as) {
  if (file.wants_direct(way == Way::write) && slices.size() == 1 && slices[0].data != nullptr)
    return move_direct(file, way, offset, slices[0], as);
  if (slices.size() == 1 && slices[0].data != nullptr)
    return move_span(file, file.descriptor(), way, offset, slices[0].data, slices[0].size, as);
  const std::vector<iovec> vectors = vectors_of(slices);
  const Moved moved = move_vectors(file.calls(), file.descriptor(), way, vectors, offset);
  count_moved(file, as, way, moved);
  return {moved.bytes, moved.error, as};
}

bool reads_by_ring(const File& file, std::uint64_t request_bytes) {
  constexpr std::uint64_t kBulk = 8 << 20, kPlain = 64 << 10;
  const std::uint64_t from = file.engine() == EngineChoice::io_uring ? kPlain : kBulk;
  return request_bytes > from && file.engine() != EngineChoice::pread && file.has_real_calls() &&
         !file.wants_direct(/*writing=*/false) && probe_uring().usable;
}

RunResult read_by_ring(File& file, std::uint64_t offset, std::span<const Slice> slices) {
  constexpr std::uint64_t kPiece = 1024 << 10;
  Uring* const ring = Uring::of_this_thread();
  if (ring == nullptr) return move_host(file, Way::read, offset, slices, IoWay::pread);
  std::vector<iovec> pieces;
  for (const Slice& slice : slices)
    for (std::uint64_t at = 0; at < slice.size; at += kPiece)
      pieces.push_back({slice.data + at, std::min(kPiece, slice.size - at)});
  std::vector<Uring::Call> calls;
  std::uint64_t end = offset;
  for (const iovec& piece : pieces) {
    calls.push_back({file.descriptor(), /*writes=*/false, end, {&piece, 1}, -ECANCELED});
    end += piece.iov_len;
  }
  ring->run(calls);
  Moved by_ring;
  std::size_t whole = 0;
  for (; whole < calls.size() && calls[whole].result == static_cast<std::int64_t>(pieces[whole].iov_len); ++whole)
    by_ring.bytes += pieces[whole].iov_len;
  by_ring.calls = static_cast<std::uint32_t>(whole);
  count_moved(file, IoWay::io_uring, Way::read, by_ring);
  RunResult all{.bytes = by_ring.bytes, .error = 0, .way = IoWay::io_uring};
  if (whole == calls.size()) return all;
  // The end of the file, or a failure: plain calls say which.
  const Moved rest =
      move_vectors(file.calls(), file.descriptor(), Way::read, std::span(pieces).subspan(whole), offset + all.bytes);
  count_moved(file, IoWay::pread, Way::read, rest);
  return {all.bytes + rest.bytes, rest.error, rest.error != 0 ? IoWay::pread : IoWay::io_uring};
}

RunResult move_run(File& file, Way way, std::uint64_t offset, std::span<const Slice> slices, Operation& operation) {
  RunResult all;
  for (std::size_t first = 0; first < slices.size();) {
    const bool on_device = slices[first].device != nullptr;
    std::size_t last = first;
    std::uint64_t size = 0;
    for (; last < slices.size(); ++last) {
      const bool is_gap = slices[last].data == nullptr;
      if (!is_gap && (slices[last].device != nullptr) != on_device) break;
      if (on_device && !is_gap && slices[last].device != slices[first].device) break;
      size += slices[last].size;
    }
    const auto some = slices.subspan(first, last - first);
    RunResult moved;
    if (on_device && slices[first].data != nullptr && slices[first].size >= io_settings().gds_threshold &&
        goes_by_cufile(file)) {
      last = first + 1;
      size = slices[first].size;
      moved = move_by_cufile(file, way, offset + all.bytes, slices[first]);
    } else if (on_device) {
      DeviceRun run{offset + all.bytes, some};
      move_staged(file, way, {&run, 1}, operation);
      moved = run.result;
    } else {
      moved = move_host(file, way, offset + all.bytes, some, IoWay::pread);
    }
    all.bytes += moved.bytes;
    all.error = moved.error;
    all.way = moved.way;
    if (moved.error != 0 || moved.bytes < size) break;
    first = last;
  }
  return all;
}

}  // namespace damacy::detail
