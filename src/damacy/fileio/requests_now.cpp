// Requests of one part in host memory, completed on the caller's thread, without a queue and without allocations.
#include "damacy/fileio/file_requests.h"

#include <sys/uio.h>

#include "damacy/fileio/detail/file_parts.h"
#include "damacy/fileio/detail/slices.h"

namespace damacy {
namespace {

using detail::RunResult;
using detail::Slice;
using detail::Way;

constexpr std::uint64_t kInlineBytes = 64 << 10;
// With several threads. The caller of `pread` starts the next request while a thread makes this one; for shorter reads
// that costs it more than to make them.
constexpr std::uint64_t kInlineBytesOfSeveral = 16 << 10;

std::uint64_t most_at_once() noexcept {
  return io_settings().num_threads > 1 ? kInlineBytesOfSeveral : kInlineBytes;
}

std::uint64_t finish_now(File& file, Direction direction, std::uint64_t offset, std::uint64_t size, RunResult moved,
                         bool exact) {
  detail::fail_short_write(direction, size, moved);
  if (moved.error != 0) throw detail::part_failed(file, direction, offset, size, moved);
  if (moved.bytes == size) return size;
  detail::count_short_read(file);
  if (exact) throw FileError::short_read(file.path(), offset, size, moved.bytes);
  return moved.bytes;
}

// Ends the use of the file with the scope. Cheaper than FileUse, because it does not count a shared_ptr.
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

std::uint64_t read_now(File& file, std::span<std::byte> dst, std::uint64_t offset, bool exact) {
  detail::check_mode(file, Direction::read);
  detail::check_range(offset, dst.size());
  if (dst.empty()) return 0;
  const BriefUse use(file);
  const detail::PartClock clock(file);
  const Slice slice{dst.data(), dst.size(), nullptr};
  const IoWay way = dst.size() <= kInlineBytes ? IoWay::inline_ : IoWay::pread;
  const RunResult moved = detail::reads_by_ring(file, dst.size())
                              ? detail::read_by_ring(file, offset, {&slice, 1})
                              : detail::move_host(file, Way::read, offset, {&slice, 1}, way);
  return finish_now(file, Direction::read, offset, dst.size(), moved, exact);
}

std::uint64_t write_now(File& file, std::span<const std::byte> src, std::uint64_t offset) {
  detail::check_mode(file, Direction::write);
  detail::check_range(offset, src.size());
  if (src.empty()) return 0;
  const BriefUse use(file);
  const detail::PartClock clock(file);
  const Slice slice{const_cast<std::byte*>(src.data()), src.size(), nullptr};  // never written to
  const IoWay way = src.size() <= kInlineBytes ? IoWay::inline_ : IoWay::pread;
  return finish_now(file, Direction::write, offset, src.size(),
                    detail::move_host(file, Way::write, offset + file.append_base(), {&slice, 1}, way), false);
}

std::optional<std::uint64_t> read_if_resident(File& file, std::span<std::byte> dst, std::uint64_t offset) {
  if (dst.size() > most_at_once() || file.wants_direct(/*writing=*/false)) return std::nullopt;
  detail::check_mode(file, Direction::read);
  if (dst.empty()) return 0;
  const BriefUse use(file);
  detail::PartClock clock(file);
  const iovec one{dst.data(), dst.size()};
  const ssize_t n = file.calls().preadv2(file.descriptor(), &one, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  const bool whole = n == static_cast<ssize_t>(dst.size());
  for (IoCounters* counters : {&file.counters(), &process_counters()}) {
    IoCounters::add(whole ? counters->resident_bytes : counters->cold_bytes, dst.size());
    if (whole) counters->moved(IoWay::inline_, /*writing=*/false, dst.size(), 1);
  }
  if (whole) return dst.size();
  clock.stop_counting();
  return std::nullopt;
}

}  // namespace damacy
