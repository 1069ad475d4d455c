// Checks that a block copy stays inside both buffers. detail/execute.h runs it.
#include "damacy/copy/block_copy.h"

#include <algorithm>

#include "damacy/copy/detail/finish_copy.h"
#include "damacy/copy/detail/float_mode.h"
#include "damacy/copy/detail/joined_rows.h"
#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

// Larger outputs are written past the caches, because they would be evicted before they are read.
constexpr std::size_t kStreamedBytes = 32u << 20;

[[noreturn]] void refuse(std::string_view why) {
  throw Error(Status::inval, formatted("block copy: {}", why));
}

// The range from the first to the last byte that the copy touches on one side.
struct Reach {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

void extend(std::int64_t& bound, std::int64_t by) {
  const auto moved = checked_add(bound, by);
  if (!moved) refuse("an offset is out of range");
  bound = *moved;
}

Reach reach_of(const BlockCopy& copy, std::int64_t offset, std::int64_t CopyAxis::* stride, std::size_t element_bytes) {
  Reach reach{offset, offset};
  for (const CopyAxis& axis : copy.used()) {
    const auto length = checked_mul(axis.extent - 1, axis.*stride);
    if (!length) refuse("an axis is too long");
    extend(*length < 0 ? reach.begin : reach.end, *length);
  }
  extend(reach.end, static_cast<std::int64_t>(element_bytes));
  return reach;
}

void check_inside(const Reach& reach, std::size_t size, std::string_view side) {
  if (reach.begin < 0 || static_cast<std::uint64_t>(reach.end) > size)
    refuse(formatted("{} bytes {}-{} are outside of its {} bytes", side, reach.begin, reach.end, size));
}

// Returns false if there is nothing to copy.
bool check_axes(const BlockCopy& copy) {
  if (copy.rank > kMaxRank) refuse(formatted("rank {}", copy.rank));
  bool empty = false;
  for (const CopyAxis& axis : copy.used()) {
    if (axis.extent < 0) refuse(formatted("extent {} is negative", axis.extent));
    if (axis.extent > 1 && axis.dst_stride <= 0) refuse(formatted("destination stride {}", axis.dst_stride));
    empty |= axis.extent == 0;
  }
  return !empty;
}

// Returns false if there is nothing to copy.
bool check_copy(const BlockCopy& copy, std::span<const std::byte> src, std::span<const std::byte> dst) {
  if (!has_conversion(copy.op.from, copy.op.to)) refuse("no such conversion");
  if (!check_axes(copy)) return false;
  const bool is_constant = copy.op.finish != nullptr && copy.op.finish->is_constant;  // nothing is read
  const Reach written = reach_of(copy, copy.dst_offset, &CopyAxis::dst_stride, size_of(copy.op.to));
  if (!is_constant)
    check_inside(reach_of(copy, copy.src_offset, &CopyAxis::src_stride, size_of(copy.op.from)), src.size(), "source");
  check_inside(written, dst.size(), "destination");
  return true;
}

}  // namespace

bool is_streamed(std::size_t written_together) noexcept {
  return written_together >= kStreamedBytes;
}

void run_block_copy(const BlockCopy& copy, std::span<const std::byte> src, std::span<std::byte> dst,
                    std::size_t written_together) {
  if (!check_copy(copy, src, dst)) return;
  const copy_detail::FloatsAsStandard floats(copy.op.from != copy.op.to || copy.op.finish != nullptr);
  const bool stream = is_streamed(std::max(dst.size(), written_together));
  const copy_detail::Manner manner{copy_detail::best_isa(), stream};
  if (copy.op.finish != nullptr) return copy_detail::execute_finished(copy, src.data(), dst.data(), manner);
  copy_detail::execute(copy, src.data(), dst.data(), manner);
}

void run_block_copies(std::span<const SourcedCopy> copies, std::span<std::byte> dst, std::size_t written_together) {
  const bool may_join =
      is_streamed(std::max(dst.size(), written_together)) &&
      std::ranges::all_of(copies, [&](const SourcedCopy& each) { return check_copy(each.copy, each.src, dst); });
  while (!copies.empty()) {
    const SourcedCopy& first = copies.front();
    const std::size_t joined = may_join ? copy_detail::count_joined(copies, dst.data()) : 1;
    if (joined == 1) {
      run_block_copy(first.copy, first.src, dst, written_together);
    } else {
      const copy_detail::FloatsAsStandard floats(first.copy.op.from != first.copy.op.to);
      copy_detail::execute_joined(copies.first(joined), dst.data(), copy_detail::best_isa());
    }
    copies = copies.subspan(joined);
  }
}

}  // namespace damacy
