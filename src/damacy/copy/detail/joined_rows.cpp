#include "damacy/copy/detail/joined_rows.h"

#include <algorithm>
#include <array>

#include "damacy/copy/detail/stream.h"

namespace damacy::copy_detail {
namespace {

constexpr std::size_t kMostPieces = 16;      // of a row
constexpr std::size_t kMostBytes = 2048;     // of a row
constexpr std::size_t kScratchBytes = 8192;  // stays in the first cache
// Kernels are fast for a multiple of a vector's elements. What is converted beyond a piece is overwritten by the next.
constexpr std::size_t kWholeVectors = 32;

std::size_t count_of(const BlockCopy& copy) {
  return static_cast<std::size_t>(copy.used().back().extent);
}

bool has_packed_rows(const BlockCopy& copy) {
  if (copy.rank < 2 || copy.op.finish != nullptr) return false;
  const CopyAxis& inner = copy.used().back();
  return inner.src_stride == static_cast<std::int64_t>(size_of(copy.op.from)) &&
         inner.dst_stride == static_cast<std::int64_t>(size_of(copy.op.to));
}

// Whether the rows of `right` begin where those of `left` end.
bool joins(const BlockCopy& left, const BlockCopy& right) {
  if (!has_packed_rows(right) || right.op != left.op || right.rank != left.rank) return false;
  if (right.dst_offset - left.dst_offset != left.used().back().extent * left.used().back().dst_stride) return false;
  for (std::uint32_t i = 0; i + 1 < left.rank; ++i)
    if (left.axes[i].extent != right.axes[i].extent || left.axes[i].dst_stride != right.axes[i].dst_stride)
      return false;
  return true;
}

struct Piece {
  const std::byte* src;
  std::size_t count;     // elements that are converted
  std::size_t offset;    // in the row, in bytes of the destination
  std::ptrdiff_t pitch;  // of the source
};

// The bytes from the first element on that the copy may read, less those that it does read.
std::int64_t bytes_behind(const SourcedCopy& from) {
  std::int64_t end = from.copy.src_offset + static_cast<std::int64_t>(size_of(from.copy.op.from));
  for (const CopyAxis& axis : from.copy.used()) end += std::max<std::int64_t>(0, (axis.extent - 1) * axis.src_stride);
  return static_cast<std::int64_t>(from.src.size()) - end;
}

Piece piece_of(const SourcedCopy& from, std::size_t offset) {
  const std::size_t count = count_of(from.copy);
  const std::size_t more = (count + kWholeVectors - 1) / kWholeVectors * kWholeVectors - count;
  const bool is_there = bytes_behind(from) >= static_cast<std::int64_t>(more * size_of(from.copy.op.from));
  return {from.src.data() + from.copy.src_offset, is_there ? count + more : count, offset,
          from.copy.axes[from.copy.rank - 2].src_stride};
}

void prefetch(const Piece& piece, const std::byte* row, std::size_t from_bytes) {
  __builtin_prefetch(row);
  __builtin_prefetch(row + (piece.count - 1) * from_bytes);
}

}  // namespace

std::size_t count_joined(std::span<const SourcedCopy> copies, const std::byte* dst) noexcept {
  BlockCopy whole = copies.front().copy;
  if (!has_packed_rows(whole)) return 1;
  const std::size_t element = size_of(whole.op.to);
  std::size_t joined = 1;
  for (; joined < std::min(copies.size(), kMostPieces); ++joined) {
    const BlockCopy& next = copies[joined].copy;
    if (!joins(copies[joined - 1].copy, next) || (count_of(whole) + count_of(next)) * element > kMostBytes) break;
    whole.axes[whole.rank - 1].extent += next.used().back().extent;
  }
  return joined > 1 && streams_rows(whole, dst) ? joined : 1;
}

void execute_joined(std::span<const SourcedCopy> copies, std::byte* dst, Isa isa) {
  const BlockCopy& first = copies.front().copy;
  const RowKernel kernel = row_kernel(first.op, isa);
  const std::size_t from_bytes = size_of(first.op.from), to_bytes = size_of(first.op.to);
  std::array<Piece, kMostPieces> pieces;
  std::size_t row_bytes = 0;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    pieces[i] = piece_of(copies[i], row_bytes);
    row_bytes += count_of(copies[i].copy) * to_bytes;
  }
  alignas(kLine) std::byte scratch[kScratchBytes];
  const std::size_t scratch_pitch = (row_bytes + kWholeVectors * to_bytes + kLine - 1) / kLine * kLine;
  const CopyAxis& rows = first.axes[first.rank - 2];
  const std::size_t height = std::min(kScratchBytes / scratch_pitch, static_cast<std::size_t>(rows.extent));
  const std::span<const CopyAxis> outer = first.used().first(first.rank - 2);
  std::array<std::int64_t, kMaxRank> at{};
  dst += first.dst_offset;
  while (true) {
    for (std::size_t top = 0; top < static_cast<std::size_t>(rows.extent); top += height) {
      const std::size_t count = std::min(height, static_cast<std::size_t>(rows.extent) - top);
      for (std::size_t i = 0; i < copies.size(); ++i) {
        const Piece& piece = pieces[i];
        const std::byte* const src = piece.src + static_cast<std::ptrdiff_t>(top) * piece.pitch;
        for (std::size_t row = 0; row < count; ++row)
          prefetch(piece, src + static_cast<std::ptrdiff_t>(height + row) * piece.pitch, from_bytes);
        kernel(
            {scratch + piece.offset, src, piece.count, count, static_cast<std::ptrdiff_t>(scratch_pitch), piece.pitch});
      }
      for (std::size_t row = 0; row < count; ++row)
        stream_bytes(dst + static_cast<std::ptrdiff_t>(top + row) * rows.dst_stride, scratch + row * scratch_pitch,
                     row_bytes);
    }
    std::size_t i = outer.size();
    for (; i > 0; --i) {
      const bool goes_on = ++at[i - 1] < outer[i - 1].extent;
      const std::int64_t steps = goes_on ? 1 : 1 - outer[i - 1].extent;
      dst += steps * outer[i - 1].dst_stride;
      for (std::size_t k = 0; k < copies.size(); ++k) pieces[k].src += steps * copies[k].copy.axes[i - 1].src_stride;
      if (goes_on) break;
      at[i - 1] = 0;
    }
    if (i == 0) break;
  }
  end_stream();
}

}  // namespace damacy::copy_detail
